"""The sample hub.toml is a document, and says of the models what the catalogue of weights says."""

from __future__ import annotations

import hashlib

from examples.embeddings import CATALOGUE, DOCUMENTS, _catalogue

from steelyard.hub.declare.schemas import Document
from steelyard.hub.remote.apply import read_document
from steelyard.models.catalogue import require

DOCUMENT = Document.model_validate(read_document(CATALOGUE))


def test_its_artifacts_are_the_models_that_can_be_pulled():
    (project,) = DOCUMENT.projects.values()
    assert len(project.artifacts) == 2
    for name, artifact in project.artifacts.items():
        assert artifact.files == {weights.file_name: weights.sha256 for weights in require(name).files}


def test_it_has_a_current_deployment_and_one_on_trial():
    (project,) = DOCUMENT.projects.values()
    (binding,) = project.bindings.values()
    (route,) = binding.routes.values()
    assert project.deployments[str(binding.current_deployment)].stage == "production"
    assert project.deployments[route.deployment].stage == "nonproduction"
    for deployment in project.deployments.values():
        assert deployment.artifact == project.identities[deployment.identity].model


def test_its_cases_are_about_the_demos_documents_as_it_says():
    (project,) = DOCUMENT.projects.values()
    revision = project.suites["faq"].revision
    assert revision is not None
    corpus = hashlib.sha256("".join(f"{text}\n" for text in DOCUMENTS).encode()).hexdigest()
    assert {case.label_provenance.corpus_revision for case in revision.cases} == {corpus}
    assert {chunk for case in revision.cases for chunk in case.labels} == {"delivery", "refunds", "kettles"}


def test_the_demos_copy_finds_its_cases(tmp_path):
    assert read_document(_catalogue({}, tmp_path)) == read_document(CATALOGUE)

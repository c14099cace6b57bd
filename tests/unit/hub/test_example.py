"""The sample hub.toml is a document, and says of the models what the catalogue of weights says."""

from __future__ import annotations

import tomllib
from pathlib import Path

from steelyard.hub.declare.schemas import Document
from steelyard.models.catalogue import require

DOCUMENT = Document.model_validate(
    tomllib.loads((Path(__file__).parents[3] / "examples" / "hub.toml").read_text(encoding="utf-8"))
)


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

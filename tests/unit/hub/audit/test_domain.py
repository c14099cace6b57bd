"""What the audit trail keeps of a thing: listed fields, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from steelyard.hall.canonical import canonical_json
from steelyard.hub.audit.domain import FIELDS, kept_of
from steelyard.hub.catalog.examples import DEPLOYMENT, THINGS
from steelyard.hub.credentials.domain import Credential

CREDENTIAL = Credential(
    id=UUID(int=1),
    public_id="0a1B2c3D4e5F",
    role="client",
    name="c",
    service_client_id=UUID(int=2),
    created_at=datetime(2026, 12, 1, tzinfo=UTC),
    revoked_at=datetime(2026, 12, 2, tzinfo=UTC),
)


@pytest.mark.parametrize("thing", [*THINGS, CREDENTIAL], ids=lambda thing: type(thing).__name__)
def test_every_thing_has_a_whitelist_of_fields_that_it_has(thing):
    kept = kept_of(thing)
    assert kept is not None
    assert tuple(kept) == FIELDS[type(thing).__name__]
    assert set(kept) <= {field.name for field in fields(thing)}
    assert canonical_json(kept)


def test_what_is_not_listed_is_not_kept():
    @dataclass(frozen=True)
    class Project:
        slug: str
        name: str
        password: str

    assert kept_of(Project("a", "A", "hunter2")) == {"slug": "a", "name": "A"}


def test_a_class_without_a_whitelist_cannot_be_recorded():
    with pytest.raises(KeyError):
        kept_of(object())


def test_nothing_is_kept_of_nothing():
    assert kept_of(None) is None


def test_ids_and_times_are_kept_as_texts():
    kept = kept_of(CREDENTIAL)
    assert kept is not None
    assert kept["service_client_id"] == str(UUID(int=2))
    assert kept["revoked_at"] == "2026-12-02T00:00:00+00:00"


def test_prompts_are_not_kept_since_they_are_texts():
    assert not {"query_prompt", "document_prompt"} & set(FIELDS["EmbeddingIdentity"])


def test_a_change_shows_in_what_is_kept():
    assert kept_of(DEPLOYMENT) != kept_of(replace(DEPLOYMENT, stage="production"))

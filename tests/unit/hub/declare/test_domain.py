from __future__ import annotations

import uuid

import pytest

from steelyard.hub.declare.domain import FieldChange, Found, Key, Plan, Wanted, plan

PROJECT = Key("project", ("search",))
BINDING = Key("binding", ("search", "rag.embedding@1"))
ROUTE = Key("route", ("search", "rag.embedding@1", "trial"))
DEPLOYMENT = Key("deployment", ("search", "small"))
REVISION = Key("suite_revision", ("search", "faq"))
RUNTIME = Key("runtime", ("search", "here"))


def wanted(**fields: object) -> Wanted:
    return Wanted(given=fields, full=fields)


def found(version: int = 1, ended_by: str | None = None, **fields: object) -> Found:
    return Found(uuid.uuid4(), fields, version=version, ended_by=ended_by)


def only(made: Plan):
    (step,) = made.steps
    return step


def test_what_is_not_there_is_created_with_its_fields():
    step = only(plan({PROJECT: wanted(name="Search")}, {}))
    assert (step.action, step.kind, step.place) == ("create", "project", "search")
    assert step.changes == [FieldChange(name="name", before=None, after="Search")]


def test_what_is_there_is_left_alone_and_so_are_fields_that_the_document_leaves_out():
    made = plan({RUNTIME: wanted(kind="steelyard")}, {RUNTIME: found(kind="steelyard", timeout_s=60.0)})
    assert (only(made).action, only(made).changes) == ("unchanged", [])
    assert list(made.to_do) == []


def test_a_remark_is_told_where_nothing_is_done():
    there = Found(uuid.uuid4(), {"digest": "d"}, remark="an older one")
    step = only(plan({REVISION: wanted(digest="d")}, {REVISION: there}))
    assert (step.action, step.reason) == ("unchanged", "an older one")


def test_what_the_document_leaves_out_is_no_part_of_the_plan():
    assert plan({}, {RUNTIME: found()}).steps == []


@pytest.mark.parametrize(
    ("key", "field", "before", "after"),
    [
        (ROUTE, "is_active", True, False),
        (BINDING, "is_active", False, True),
        (DEPLOYMENT, "stage", "nonproduction", "production"),
    ],
)
def test_what_can_change_is_changed(key, field, before, after):
    step = only(plan({key: wanted(**{field: after})}, {key: found(**{field: before})}))
    assert step.action == "change"
    assert step.changes == [FieldChange(name=field, before=before, after=after)]


def test_a_fixed_field_is_refused_in_words():
    made = plan({RUNTIME: wanted(base_url="http://b")}, {RUNTIME: found(base_url="http://a")})
    assert only(made).reason == (
        "base_url is 'http://a' and the file says 'http://b', which never changes in a runtime: give a new one another "
        "name, or put the file right"
    )
    assert made.refused == made.steps


def test_a_number_is_shown_as_it_is():
    made = plan({RUNTIME: wanted(timeout_s=2.0)}, {RUNTIME: found(timeout_s=1.0)})
    assert "timeout_s is 1.0 and the file says 2.0" in str(only(made).reason)


def test_a_pointer_is_set_where_there_is_none():
    present = {BINDING: found(current_deployment=None), DEPLOYMENT: found()}
    assert only(plan({BINDING: wanted(current_deployment="small")}, present)).action == "change"


def test_a_pointer_is_not_moved_and_the_command_is_told():
    present = {BINDING: found(version=3, is_active=True, current_deployment="old"), DEPLOYMENT: found()}
    step = only(plan({BINDING: wanted(current_deployment="small", is_active=False)}, present))
    assert step.action == "refused"
    assert str(step.reason).endswith(
        "steelyard hub bindings set-current rag.embedding@1 --project search --deployment small --expected-version 3"
    )


@pytest.mark.parametrize("word", ["retired", "revoked"])
def test_what_has_ended_stays_ended(word):
    step = only(plan({DEPLOYMENT: wanted()}, {DEPLOYMENT: found(ended_by=word)}))
    assert (step.action, str(step.reason).partition(":")[0]) == ("refused", f"it is {word}, for good")


@pytest.mark.parametrize("is_there", [True, False])
def test_the_stable_route_is_not_the_documents(is_there):
    stable = Key("route", (*BINDING.path, "stable"))
    present = {stable: found(deployment=None), DEPLOYMENT: found()}
    step = only(plan({stable: wanted(deployment="small")}, present if is_there else {DEPLOYMENT: found()}))
    assert str(step.reason).startswith("the stable route comes with its binding")


def test_what_is_named_must_be_in_the_file_or_in_the_hub():
    route = {ROUTE: wanted(deployment="small")}
    assert only(plan(route, {})).reason == "project search has no deployment small, and the file makes none"
    assert only(plan(route, {DEPLOYMENT: found()})).action == "create"
    assert plan({**route, DEPLOYMENT: wanted()}, {}).refused == []


def test_a_thing_comes_after_what_it_names():
    keys = [
        REVISION, Key("suite", ("search", "faq")), Key("client", ("search", "indexer")), ROUTE, BINDING, DEPLOYMENT,
        Key("identity", ("search", "a")), RUNTIME, Key("artifact", ("search", "a")), PROJECT,
    ]  # fmt: skip
    assert [key for key, _ in plan({key: wanted() for key in keys}, {}).entries] == keys[::-1]


def test_a_route_is_closed_before_its_deployment_moves_and_opened_after():
    things = {DEPLOYMENT: wanted(stage="production"), ROUTE: wanted(is_active=False)}
    present = {DEPLOYMENT: found(stage="nonproduction"), ROUTE: found(is_active=True)}
    assert [key for key, _ in plan(things, present).entries] == [ROUTE, DEPLOYMENT]
    things = {DEPLOYMENT: wanted(stage="nonproduction"), ROUTE: wanted(is_active=True)}
    present = {DEPLOYMENT: found(stage="production"), ROUTE: found(is_active=False)}
    assert [key for key, _ in plan(things, present).entries] == [DEPLOYMENT, ROUTE]


def test_the_digest_is_of_what_is_shown():
    first = plan({PROJECT: wanted(name="Search")}, {})
    assert first.digest == plan({PROJECT: wanted(name="Search")}, {}).digest
    assert first.digest != plan({PROJECT: wanted(name="Other")}, {}).digest
    assert first.digest != plan({PROJECT: wanted(name="Search")}, {PROJECT: found(name="Search")}).digest


def test_one_step_can_be_refused_afterwards():
    made = plan({PROJECT: wanted(name="Search"), RUNTIME: wanted()}, {}).refusing(RUNTIME, "because")
    assert [(step.action, step.reason) for step in made.steps] == [("create", None), ("refused", "because")]

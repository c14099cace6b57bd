"""Declarative documents over HTTP: shown first, done whole or not at all, and done twice the same as once."""

from __future__ import annotations

import copy
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hub_api import case, revision

CAPABILITY = "rag.embedding@1"
IDENTITY = {
    "model": "m", "dimension": 384, "pooling": "mean", "is_normalized": True, "max_length": 256, "dtype": "int8",
}  # fmt: skip


def deployment(stage: str = "production", **fields: Any) -> dict[str, Any]:
    return {"artifact": "a", "runtime": "r", "identity": "i", "stage": stage, **fields}


def document(**project: Any) -> dict[str, Any]:
    return {
        "projects": {
            "search": {
                "name": "Search",
                "artifacts": {"a": {"source": "s", "revision": "1", "files": {"m.onnx": "ab" * 32}}},
                "runtimes": {"r": {"kind": "steelyard", "base_url": "http://127.0.0.1:8472/v1"}},
                "identities": {"i": IDENTITY},
                "deployments": {"old": deployment(), "new": deployment("nonproduction")},
                "bindings": {
                    CAPABILITY: {
                        "current_deployment": "old",
                        "routes": {"trial": {"deployment": "new"}},
                        "clients": {"indexer": {"name": "Indexer"}},
                    }
                },
                "suites": {"faq": {"name": "FAQ"}},
                **project,
            }
        }
    }


@pytest.fixture
def apply(operator):
    """Apply a document, and return the answer."""
    return lambda wanted, **fields: operator.post("/apply", **{"document": wanted, "dry_run": False, **fields})


def actions(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [step["action"] for step in answer.json()["steps"]]


def reasons(answer) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {step["place"]: step["reason"] for step in answer.json()["steps"] if step["action"] == "refused"}


def everything(caller) -> dict[str, Any]:
    paths = ("projects", "artifacts", "runtimes", "embedding-identities", "deployments", "project-bindings", "routes",
             "service-clients", "suites", "audit-events")  # fmt: skip
    return {path: caller.get(f"/{path}", limit=100).json()["items"] for path in paths}


def test_a_whole_project_comes_from_one_document(apply, operator):
    answer = apply(document())
    assert actions(answer) == ["create"] * 10
    assert answer.json()["is_applied"] is True
    made = everything(operator)
    (binding,) = made["project-bindings"]
    old = next(item for item in made["deployments"] if item["slug"] == "old")
    new = next(item for item in made["deployments"] if item["slug"] == "new")
    trial = next(item for item in made["routes"] if item["slug"] == "trial")
    assert binding["current_deployment_id"] == old["id"]
    assert (trial["deployment_id"], trial["project_binding_id"]) == (new["id"], binding["id"])
    assert (old["served_model"], made["runtimes"][0]["on_overlong"]) == ("m", "reports")
    assert made["service-clients"][0]["capabilities"] == [CAPABILITY]
    assert {event["actor_role"] for event in made["audit-events"] if event["action"] != "credential.issue"} == {
        "operator"
    }


def test_a_second_time_nothing_is_done(apply, operator):
    apply(document())
    before = everything(operator)
    assert actions(apply(document())) == ["unchanged"] * 10
    assert everything(operator) == before


def test_a_dry_run_shows_the_plan_and_does_nothing(apply, operator):
    before = everything(operator)
    shown = apply(document(), dry_run=True)
    assert actions(shown) == ["create"] * 10
    assert shown.json()["is_applied"] is False
    assert everything(operator) == before
    done = apply(document(), plan_digest=shown.json()["plan_digest"])
    assert done.json()["steps"] == shown.json()["steps"]


def test_another_plan_than_the_one_shown_is_not_carried_out(apply, operator):
    digest = apply(document(), dry_run=True).json()["plan_digest"]
    operator.make("/projects", slug="search", name="Search")
    before = everything(operator)
    answer = apply(document(), plan_digest=digest)
    assert (answer.status_code, answer.json()["code"]) == (409, "PLAN_CHANGED")
    assert everything(operator) == before


def test_what_is_left_out_stays(apply, operator):
    apply(document())
    before = everything(operator)
    assert actions(apply({"projects": {"search": {"name": "Search"}}})) == ["unchanged"]
    assert everything(operator) == before


def test_a_refused_step_stops_everything(apply, operator):
    apply(document())
    before = everything(operator)
    runtimes = {"r": {"kind": "vllm", "base_url": "http://127.0.0.1:8472/v1"},
                "other": {"kind": "vllm", "base_url": "http://127.0.0.1:8473/v1"}}  # fmt: skip
    shown = apply(document(runtimes=runtimes), dry_run=True)
    assert list(reasons(shown)) == ["search/r"]
    answer = apply(document(runtimes=runtimes))
    assert (answer.status_code, answer.json()["code"]) == (409, "PLAN_REFUSED")
    assert "runtime search/r: kind is 'steelyard' and the file says 'vllm'" in answer.json()["detail"]
    assert everything(operator) == before


def test_a_pointer_is_set_once_and_then_only_moved_by_the_command(apply, operator):
    wanted = document()
    binding = wanted["projects"]["search"]["bindings"][CAPABILITY]
    binding["current_deployment"] = None
    apply(wanted)
    binding["current_deployment"] = "old"
    assert sorted(set(actions(apply(wanted)))) == ["change", "unchanged"]
    wanted["projects"]["search"]["deployments"]["second"] = deployment()
    binding["current_deployment"] = "second"
    (reason,) = reasons(apply(wanted, dry_run=True)).values()
    assert "bindings set-current rag.embedding@1 --project search --deployment second --expected-version 2" in reason
    assert apply(wanted).json()["code"] == "PLAN_REFUSED"
    assert operator.get("/project-bindings").json()["items"][0]["version"] == 2


def test_a_trial_is_closed_and_its_deployment_promoted_in_one_go(apply, operator):
    apply(document())
    wanted = document(deployments={"old": deployment(), "new": deployment("production")})
    routes = wanted["projects"]["search"]["bindings"][CAPABILITY]["routes"]
    assert "new has the active route trial" in reasons(apply(wanted, dry_run=True))["search/new"]
    routes["trial"]["is_active"] = False
    assert sorted(actions(apply(wanted))) == ["change"] * 2 + ["unchanged"] * 8
    assert operator.get("/deployments", stage="production").json()["items"][0]["slug"] in ("old", "new")
    assert operator.get("/routes", slug="trial").json()["items"][0]["is_active"] is False


def test_a_rule_of_the_catalogue_shows_in_the_dry_run_and_nothing_is_written(apply, operator):
    wanted = document()
    wanted["projects"]["search"]["bindings"][CAPABILITY]["routes"]["trial"]["deployment"] = "old"
    before = everything(operator)
    assert "old is in production" in reasons(apply(wanted, dry_run=True))[f"search/{CAPABILITY}/trial"]
    answer = apply(wanted)
    assert (answer.status_code, answer.json()["code"]) == (409, "PLAN_REFUSED")
    assert everything(operator) == before


def test_things_can_begin_closed(apply, operator):
    wanted = document()
    binding = wanted["projects"]["search"]["bindings"][CAPABILITY]
    binding["is_active"] = binding["routes"]["trial"]["is_active"] = False
    apply(wanted)
    assert operator.get("/project-bindings").json()["items"][0]["is_active"] is False
    assert operator.get("/routes", slug="trial").json()["items"][0]["is_active"] is False
    assert set(actions(apply(wanted))) == {"unchanged"}


def test_what_has_ended_is_refused(apply, operator):
    apply(document())
    client = operator.get("/service-clients").json()["items"][0]
    operator.post(f"/service-clients/{client['id']}/revoke", expected_version=1)
    assert "revoked, for good" in reasons(apply(document(), dry_run=True))["search/indexer"]


def faq(**fields: Any) -> dict[str, Any]:
    return document(suites={"faq": {"name": "FAQ", "revision": revision(**fields)}})


def revisions(caller) -> list[Any]:
    (suite,) = caller.get("/suites", slug="faq").json()["items"]
    items: list[Any] = caller.get(f"/suites/{suite['id']}/revisions").json()["items"]
    return items


def test_a_suites_cases_come_with_it_and_are_the_revision_that_an_import_makes(apply, operator):
    shown = apply(faq(), dry_run=True)
    step = shown.json()["steps"][-1]
    assert (step["action"], step["kind"], step["place"]) == ("create", "suite_revision", "search/faq")
    done = apply(faq(), plan_digest=shown.json()["plan_digest"])
    assert actions(done) == ["create"] * 11
    (made,) = revisions(operator)
    changes = {change["name"]: change["after"] for change in step["changes"]}
    assert changes == {name: made[name] for name in ("digest", "case_count", "retrieval_settings")}
    assert operator.post(f"/suites/{made['suite_id']}/revisions", **revision()).json() == made
    assert operator.get(f"/suite-revisions/{made['id']}/cases").json()["items"] == revision()["cases"]
    (event,) = operator.get("/audit-events", action="suite_revision.import").json()["items"]
    assert event["subject_id"] == made["id"]


def test_the_same_cases_again_change_nothing_and_others_are_the_next_revision(apply, operator):
    apply(faq())
    before = everything(operator)
    assert set(actions(apply(faq()))) == {"unchanged"}
    assert everything(operator) == before
    assert sorted(set(actions(apply(faq(retrieval_settings={"top_k": 5}))))) == ["create", "unchanged"]
    assert [item["number"] for item in revisions(operator)] == [2, 1]


def test_the_cases_of_an_older_revision_are_unchanged_and_the_plan_says_so(apply, operator):
    apply(faq())
    assert apply(faq()).json()["steps"][-1]["reason"] is None
    apply(faq(cases=[case(7)]))
    again = apply(faq())
    assert set(actions(again)) == {"unchanged"}
    assert again.json()["steps"][-1]["reason"] == "it is revision 1 already, and the newest is 2"
    assert [item["number"] for item in revisions(operator)] == [2, 1]


def test_a_suite_without_cases_in_the_document_keeps_its_revisions(apply, operator):
    apply(faq())
    assert set(actions(apply(document()))) == {"unchanged"}
    assert len(revisions(operator)) == 1


def test_a_refused_step_keeps_cases_out_too(apply, operator):
    wanted = faq()
    wanted["projects"]["search"]["bindings"][CAPABILITY]["routes"]["trial"]["deployment"] = "old"
    before = everything(operator)
    assert apply(wanted).json()["code"] == "PLAN_REFUSED"
    assert everything(operator) == before


def test_the_faults_of_cases_are_told_with_their_places(apply):
    wanted = faq(cases=[case(0), case(1, query=""), case(0)], retrieval_settings={})
    answer = apply(wanted)
    assert answer.status_code == 422
    assert [item["where"].removeprefix("body.document.projects.*.suites.*.revision.") for item in
            answer.json()["errors"]] == ["retrieval_settings.top_k", "cases.1.query", "cases.2.case_id"]  # fmt: skip


def test_an_unknown_name_and_a_wrong_type_are_told_with_their_place(apply):
    wanted = document(surprise=1, suites={"Big": {"name": "x"}})
    wanted["projects"]["search"]["runtimes"]["r"]["timeout_s"] = "soon"
    answer = apply(wanted)
    assert answer.status_code == 422
    told = [(item["where"], item["rule"]) for item in answer.json()["errors"]]
    project = "body.document.projects.*"  # Names that the caller made up are not repeated.
    assert [rule for place, rule in told if place == f"{project}.*"]
    assert (f"{project}.runtimes.*.timeout_s", "must be a number") in told
    assert any(place.startswith(f"{project}.suites.*") for place, _ in told)


def test_a_secret_has_no_place_in_a_document(apply):
    wanted = document()
    wanted["projects"]["search"]["bindings"][CAPABILITY]["clients"]["indexer"]["secret"] = "steelyard_client_x"
    answer = apply(wanted)
    assert answer.status_code == 422
    assert "steelyard_client_x" not in answer.text


def test_a_viewer_may_not_even_look_at_a_plan(viewer):
    assert viewer.post("/apply", document=document(), dry_run=True).status_code == 403


def test_of_many_at_once_one_makes_everything(apply, operator):
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: apply(document()), range(6)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert any(answer.status_code == 200 for answer in answers)
    assert set(actions(apply(document()))) == {"unchanged"}
    assert len(operator.get("/projects").json()["items"]) == 1


def test_a_document_has_at_most_a_thousand_things(apply):
    suites = {f"s{number}": {"name": "S"} for number in range(991)}
    assert actions(apply(document(suites=suites), dry_run=True)) == ["create"] * 1000
    for more in ({"one-more": {"name": "S"}}, {"s0": {"name": "S", "revision": revision()}}):
        answer = apply(document(suites=suites | more))
        assert answer.status_code == 422
        assert "has more than 1000 things" in answer.json()["errors"][0]["rule"]


def test_a_document_has_at_most_five_thousand_cases(apply):
    suites = {f"s{number}": {"name": "S", "revision": revision(100)} for number in range(50)}
    more = {"more": {"name": "S", "revision": revision(1)}}
    answer = apply(document(suites=suites | more), dry_run=True)
    assert answer.status_code == 422
    assert "has more than 5000 cases" in answer.json()["errors"][0]["rule"]
    assert set(actions(apply(document(suites=suites), dry_run=True))) == {"create"}


SLUGS = st.sampled_from(["a", "b.c", "d-1"])
REVISIONS = st.sampled_from([{}, {"revision": revision(1)}, {"revision": revision(2)}])
STAGES = st.sampled_from(["production", "nonproduction"])


@st.composite
def projects(draw) -> dict[str, Any]:
    """Draw a project whose parts may refer to what is not there, and so may be refused."""
    part: dict[str, Any] = {"name": draw(st.sampled_from(["X", "Y"]))}
    part["artifacts"] = {s: {"source": "s", "revision": "r", "files": {"m": "00" * 32}} for s in draw(st.sets(SLUGS))}
    part["runtimes"] = {s: {"kind": "ollama", "base_url": f"http://{s}.test"} for s in draw(st.sets(SLUGS))}
    part["identities"] = dict.fromkeys(draw(st.sets(SLUGS)), IDENTITY)
    part["suites"] = {s: {"name": s, **draw(REVISIONS)} for s in draw(st.sets(SLUGS))}
    named = {name: list(part[name]) or ["none"] for name in ("artifacts", "runtimes", "identities")}
    part["deployments"] = {
        slug: {
            "artifact": draw(st.sampled_from(named["artifacts"])),
            "runtime": draw(st.sampled_from(named["runtimes"])),
            "identity": draw(st.sampled_from(named["identities"])),
            "stage": draw(STAGES),
        }
        for slug in draw(st.sets(SLUGS))
    }
    if draw(st.booleans()):
        part["bindings"] = {CAPABILITY: draw(bindings(list(part["deployments"]) or ["none"]))}
    return part


@st.composite
def bindings(draw, deployments: list[str]) -> dict[str, Any]:
    routes = {
        slug: {"deployment": draw(st.sampled_from(deployments)), "is_active": draw(st.booleans())}
        for slug in draw(st.sets(SLUGS))
    }
    part = {"is_active": draw(st.booleans()), "routes": routes}
    part["clients"] = {slug: {"name": slug} for slug in draw(st.sets(SLUGS))}
    if draw(st.booleans()):
        part["current_deployment"] = draw(st.sampled_from(deployments))
    return part


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(projects(), min_size=1, max_size=3))
def test_whatever_was_applied_is_unchanged_the_next_time_and_whatever_was_refused_did_nothing(apply, operator, parts):
    slug = f"p{uuid.uuid4().hex}"
    for part in parts:
        wanted = {"projects": {slug: part}}
        sent = copy.deepcopy(wanted)
        shown = apply(wanted, dry_run=True)
        is_possible = not reasons(shown)
        answer = apply(wanted, plan_digest=shown.json()["plan_digest"])
        assert answer.status_code == (200 if is_possible else 409), answer.text
        if is_possible:
            assert actions(answer) == actions(shown)
            assert set(actions(apply(wanted))) == {"unchanged"}
        else:
            assert apply(wanted, dry_run=True).json() == shown.json()
        assert wanted == sent

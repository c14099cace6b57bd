"""The catalogue's endpoints: what they make, list and change, on both databases."""

from __future__ import annotations

import itertools

import pytest
from tests.hub_api import deploy, fill

NOWHERE = "00000000-0000-4000-8000-000000000000"
THINGS = {
    "/projects": "project",
    "/project-bindings": "binding",
    "/service-clients": "client",
    "/artifacts": "artifact",
    "/runtimes": "runtime",
    "/embedding-identities": "identity",
    "/deployments": "production",
}


def code(answer):
    return answer.status_code, answer.json().get("code")


def events(operator, **query):
    return [event["action"] for event in operator.get("/audit-events", **query).json()["items"]]


def test_what_was_made_is_found_under_its_location_as_it_was_answered(operator, viewer):
    answer = operator.post("/projects", slug="a", name="A")
    path = answer.headers["Location"].removeprefix("/api/v1")
    assert path == f"/projects/{answer.json()['id']}"
    assert viewer.get(path).json() == answer.json()


def test_every_thing_can_be_read_alone_and_in_its_list(viewer, catalogue):
    for path, name in THINGS.items():
        thing = getattr(catalogue, name)
        assert viewer.get(f"{path}/{thing['id']}").json() == thing
        assert thing in viewer.get(path).json()["items"]
        assert thing["created_at"].endswith("Z")


def test_a_binding_has_its_stable_route_from_the_start(viewer, catalogue):
    [route] = viewer.get("/routes", project_binding_id=catalogue.binding["id"]).json()["items"]
    assert (route["slug"], route["kind"], route["deployment_id"], route["is_active"]) == (
        "stable", "stable", None, True,
    )  # fmt: skip


def test_lists_are_newest_first_in_pages_that_have_everything_once(operator):
    made = [operator.make("/projects", slug=f"p{number}", name="P")["id"] for number in range(7)][::-1]
    seen = []
    for offset in range(0, 8, 3):
        page = operator.get("/projects", limit=3, offset=offset).json()
        assert (page["limit"], page["offset"], page["has_more"]) == (3, offset, offset < 6)
        seen += [item["id"] for item in page["items"]]
    assert seen == made
    assert operator.get("/projects", limit=7).json()["has_more"] is False
    assert operator.get("/projects", offset=10_000).json()["items"] == []


def test_a_page_has_its_bounds(operator):
    for good in ({"limit": 1}, {"limit": 100}, {"offset": 0}, {"offset": 10_000}):
        assert operator.get("/projects", **good).status_code == 200
    for query in (
        {"limit": 0}, {"limit": 101}, {"limit": -1}, {"limit": "x"}, {"limit": ""}, {"limit": "9" * 5000},
        {"offset": -1}, {"offset": 10_001}, {"offset": "1.5"}, {"offfset": 0}, {"slug": "A"}, {"slug": ""},
    ):  # fmt: skip
        assert code(operator.client.get("/api/v1/projects", params=query, headers=operator.headers)) == (
            422,
            "INVALID_REQUEST",
        ), query


def test_filters_filter(operator, catalogue):
    other = fill(operator, "other")
    for path, name in itertools.islice(THINGS.items(), 1, None):
        found = operator.get(path, project_id=catalogue.project["id"]).json()["items"]
        assert getattr(catalogue, name) in found
        assert getattr(other, name) not in found
    slugs = [d["slug"] for d in operator.get("/deployments", stage="production", is_active="true").json()["items"]]
    assert slugs == ["d1", "d1"]
    assert operator.get("/project-bindings", is_active="false").json()["items"] == []
    assert len(operator.get("/service-clients", project_binding_id=other.binding["id"]).json()["items"]) == 1
    assert operator.get("/projects", slug="other").json()["items"] == [other.project]


def test_a_slug_is_taken_once_in_its_project(operator, catalogue):
    assert code(operator.post("/projects", slug="search", name="X")) == (409, "SLUG_TAKEN")
    own = {"project_id": catalogue.project["id"]}
    again = operator.post("/artifacts", **own, slug="a", source="s", revision="r", files={"f": "ab" * 32})
    assert code(again) == (409, "SLUG_TAKEN")
    assert fill(operator, "other").artifact["slug"] == "a"


def test_a_project_has_one_binding_of_a_capability(operator, catalogue):
    assert code(operator.post("/project-bindings", project_id=catalogue.project["id"])) == (409, "BINDING_EXISTS")


def test_a_refused_change_leaves_no_trace(operator, catalogue):
    before = events(operator, limit=100)
    operator.post("/projects", slug="search", name="X")
    operator.post(f"/project-bindings/{catalogue.binding['id']}/activate", expected_version=9)
    operator.post("/routes", project_binding_id=catalogue.binding["id"], slug="x", deployment_id=NOWHERE)
    assert events(operator, limit=100) == before


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/project-bindings", "project_id"),
        ("/service-clients", "project_binding_id"),
        ("/artifacts", "project_id"),
        ("/deployments", "artifact_id"),
        ("/deployments", "runtime_id"),
        ("/deployments", "embedding_identity_id"),
        ("/routes", "project_binding_id"),
        ("/routes", "deployment_id"),
    ],
)
def test_an_id_of_nothing_is_a_422_that_does_not_repeat_it(operator, catalogue, path, field):
    parts = {
        "/project-bindings": {"project_id": catalogue.project["id"]},
        "/service-clients": {"project_binding_id": catalogue.binding["id"], "slug": "x", "name": "X"},
        "/artifacts": {"project_id": NOWHERE, "slug": "x", "source": "s", "revision": "r", "files": {"f": "ab" * 32}},
        "/deployments": {
            "artifact_id": catalogue.artifact["id"], "runtime_id": catalogue.runtime["id"],
            "embedding_identity_id": catalogue.identity["id"], "slug": "x", "stage": "production",
        },
        "/routes": {
            "project_binding_id": catalogue.binding["id"], "deployment_id": catalogue.candidate["id"], "slug": "x",
        },
    }[path]  # fmt: skip
    answer = operator.post(path, **{**parts, field: NOWHERE})
    assert code(answer) == (422, "UNKNOWN_REFERENCE")
    assert NOWHERE not in answer.text


def test_only_set_current_moves_the_pointer_and_only_to_an_active_production_deployment(operator, catalogue):
    path = f"/project-bindings/{catalogue.binding['id']}"
    move = f"{path}/current-deployment"
    assert code(operator.post(move, deployment_id=catalogue.candidate["id"], expected_version=1)) == (
        409, "NOT_ELIGIBLE",
    )  # fmt: skip
    moved = operator.post(move, deployment_id=catalogue.production["id"], expected_version=1).json()
    assert (moved["current_deployment_id"], moved["version"]) == (catalogue.production["id"], 2)
    foreign = fill(operator, "other").production
    assert code(operator.post(move, deployment_id=foreign["id"], expected_version=2)) == (422, "INVALID_REQUEST")
    assert operator.get(path).json() == moved
    assert events(operator, subject_id=catalogue.binding["id"]) == [
        "project_binding.set_current", "project_binding.create",
    ]  # fmt: skip


def test_a_stale_version_is_told_before_any_other_rule(operator, catalogue):
    move = f"/project-bindings/{catalogue.binding['id']}/current-deployment"
    answer = operator.post(move, deployment_id=catalogue.candidate["id"], expected_version=7)
    assert code(answer) == (409, "VERSION_CONFLICT")
    assert answer.json()["current_version"] == 1


def test_a_change_to_what_is_already_so_changes_nothing(operator, catalogue):
    path = f"/project-bindings/{catalogue.binding['id']}/activate"
    answer = operator.post(path, expected_version=1)
    assert (answer.status_code, answer.json()) == (200, catalogue.binding)
    assert events(operator, subject_id=catalogue.binding["id"]) == ["project_binding.create"]


def test_a_deployment_that_traffic_reaches_cannot_be_retired_or_moved(operator, catalogue):
    path = f"/project-bindings/{catalogue.binding['id']}/current-deployment"
    operator.post(path, deployment_id=catalogue.production["id"], expected_version=1)
    route = operator.make(
        "/routes", project_binding_id=catalogue.binding["id"], slug="x", deployment_id=catalogue.candidate["id"]
    )
    for thing, stage in ((catalogue.production, "nonproduction"), (catalogue.candidate, "production")):
        retired = operator.post(f"/deployments/{thing['id']}/retire", expected_version=1)
        moved = operator.post(f"/deployments/{thing['id']}/stage", expected_version=1, stage=stage)
        assert code(retired) == code(moved) == (409, "NOT_ELIGIBLE")
    operator.post(f"/routes/{route['id']}/deactivate", expected_version=1)
    path = f"/deployments/{catalogue.candidate['id']}"
    assert operator.post(f"{path}/stage", expected_version=1, stage="production").json()["stage"] == "production"
    assert operator.post(f"{path}/retire", expected_version=2).json()["is_active"] is False
    assert code(operator.post(f"{path}/stage", expected_version=3, stage="nonproduction")) == (409, "NOT_ELIGIBLE")


def test_what_makes_a_deployment_stays_whatever_changes(operator, catalogue):
    path = f"/deployments/{catalogue.candidate['id']}"
    operator.post(f"{path}/stage", expected_version=1, stage="production")
    operator.post(f"{path}/retire", expected_version=2)
    changed = {"stage": "production", "is_active": False, "version": 3}
    assert operator.get(path).json() == {**catalogue.candidate, **changed}
    for path, thing in (
        ("/artifacts", catalogue.artifact),
        ("/runtimes", catalogue.runtime),
        ("/embedding-identities", catalogue.identity),
    ):
        assert operator.get(f"{path}/{thing['id']}").json() == thing
        for change in ("retire", "stage", "revoke", "activate"):
            assert code(operator.post(f"{path}/{thing['id']}/{change}", expected_version=1)) == (404, "NOT_FOUND")


def test_a_retired_deployment_gets_no_route_and_its_old_one_stays_closed(operator, catalogue):
    binding = {"project_binding_id": catalogue.binding["id"]}
    route = operator.make("/routes", **binding, slug="x", deployment_id=catalogue.candidate["id"])
    operator.post(f"/routes/{route['id']}/deactivate", expected_version=1)
    operator.post(f"/deployments/{catalogue.candidate['id']}/retire", expected_version=1)
    assert code(operator.post(f"/routes/{route['id']}/activate", expected_version=2)) == (409, "NOT_ELIGIBLE")
    again = operator.post("/routes", **binding, slug="y", deployment_id=catalogue.candidate["id"])
    assert code(again) == (409, "NOT_ELIGIBLE")


def test_an_experiment_leads_to_a_nonproduction_deployment_and_is_not_called_stable(operator, catalogue):
    binding = {"project_binding_id": catalogue.binding["id"]}
    current = operator.post("/routes", **binding, slug="x", deployment_id=catalogue.production["id"])
    assert code(current) == (409, "NOT_ELIGIBLE")
    named = operator.post("/routes", **binding, slug="stable", deployment_id=catalogue.candidate["id"])
    assert code(named) == (422, "INVALID_REQUEST")


def test_the_stable_route_is_as_open_as_its_binding(operator, catalogue):
    [stable] = operator.get("/routes", slug="stable").json()["items"]
    for change in ("activate", "deactivate"):
        assert code(operator.post(f"/routes/{stable['id']}/{change}", expected_version=1)) == (409, "NOT_ELIGIBLE")
    path = f"/project-bindings/{catalogue.binding['id']}"
    assert operator.post(f"{path}/deactivate", expected_version=1).json()["is_active"] is False
    assert operator.post(f"{path}/activate", expected_version=2).json()["version"] == 3


def test_a_servers_way_with_overlong_inputs_follows_its_kind_unless_it_is_given(operator, catalogue):
    own = {"project_id": catalogue.project["id"], "base_url": "http://h/v1"}
    assert operator.make("/runtimes", **own, slug="x", kind="ollama")["on_overlong"] == "truncates"
    assert operator.make("/runtimes", **own, slug="y", kind="ollama", on_overlong="refuses")["on_overlong"] == "refuses"


def test_a_deployments_served_model_is_its_identitys_unless_it_is_given(operator, catalogue):
    parts = (catalogue.artifact, catalogue.runtime, catalogue.identity)
    assert deploy(operator, *parts, slug="x", stage="production")["served_model"] == "m"
    assert deploy(operator, *parts, slug="y", stage="production", served_model="n")["served_model"] == "n"


def test_addresses_are_those_of_servers_and_carry_no_password(operator, catalogue):
    own = {"project_id": catalogue.project["id"], "kind": "vllm"}
    for number, url in enumerate(("http://h/v1", "https://h:8443/v1", "http://[::1]:8080/v1", "http://127.0.0.1")):
        operator.make("/runtimes", **own, slug=f"x{number}", base_url=url)
    for url in (
        "", "h", "ftp://h/v1", "http://", "http://u:hunter2@h/v1", "http://h/v1/", "http://h/v1?key=hunter2",
        "http://h/#x", "http://h:0/v1", "http://h:99999/v1", "http://h h/v1", "http://[::1/v1", "http://h\n/v1",
        "http://é/v1", "file:///etc/passwd", "http://" + "h" * 500,
    ):  # fmt: skip
        answer = operator.post("/runtimes", **own, slug="bad", base_url=url)
        assert answer.status_code == 422, url
        assert "hunter2" not in answer.text


def test_a_key_is_named_by_its_variable_and_never_sent(operator, catalogue):
    own = {"project_id": catalogue.project["id"], "kind": "vllm", "base_url": "http://h/v1", "slug": "x"}
    for variable in ("sk-hunter2", "PATH", "STEELYARD_HUB_DATABASE", "STEELYARD_UPSTREAM_"):
        answer = operator.post("/runtimes", **own, key_variable=variable)
        assert answer.status_code == 422
        assert "hunter2" not in answer.text
    assert operator.make("/runtimes", **own, key_variable="STEELYARD_UPSTREAM_A")["key_variable"]


def test_the_trail_has_before_and_after_and_filters(operator, viewer, catalogue):
    operator.post(f"/service-clients/{catalogue.client['id']}/revoke", expected_version=1)
    [event] = viewer.get("/audit-events", subject_kind="ServiceClient", action="service_client.revoke").json()["items"]
    assert (event["before"]["is_active"], event["after"]["is_active"]) == (True, False)
    assert (event["before"]["version"], event["after"]["version"]) == (1, 2)
    assert event["project_id"] == catalogue.project["id"]
    assert viewer.get("/audit-events", project_id=NOWHERE).json()["items"] == []
    assert viewer.get("/audit-events", actor="local").json()["items"][0]["action"] == "credential.issue"
    ids = [event["id"] for event in viewer.get("/audit-events", limit=100).json()["items"]]
    assert ids == sorted(ids, reverse=True)

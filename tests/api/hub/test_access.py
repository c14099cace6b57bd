"""Who may do what, and in which order that is found out."""

from __future__ import annotations

import hmac
import json
import uuid
from typing import TYPE_CHECKING

from tests.api.asgi import exchange
from tests.hub_api import fill

from steelyard.hub.credentials.domain import new_secret
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from tests.hub_api import Asked

NOWHERE = "00000000-0000-4000-8000-000000000000"
OPEN = {("GET", "/health"), ("GET", "/openapi.json")}
ANYBODY = {("GET", "/v1/models"), ("POST", "/v1/embeddings")}  # The gateway says itself who may call it.
COMPARISON = "/api/v1/selected-model-comparisons"
CONSUMERS = {("GET", f"{COMPARISON}/assigned")} | {
    ("POST", f"{COMPARISON}/{{comparison_id}}/{call}") for call in ("claim", "progress", "result", "finish")
}


def operations(asked: Asked) -> list[tuple[str, str]]:
    paths = asked.hub.document["paths"]
    return [(method.upper(), path) for path, item in paths.items() for method in item]


def real(path: str) -> str:
    return "/".join(NOWHERE if part.startswith("{") else part for part in path.split("/"))


def statuses(asked: Asked, secret: str | None) -> dict[tuple[str, str], int]:
    """Return the status of every operation for the holder of *secret*, who sends nothing that is valid."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return {
        (method, path): asked.ask(method, real(path), headers=headers, content=b"{").status_code
        for method, path in operations(asked)
    }


def test_without_a_credential_everything_but_health_and_the_document_is_a_401(asked):
    found = statuses(asked, None)
    assert {operation for operation, status in found.items() if status != 401} == OPEN
    assert len(found) > 40


def test_a_401_says_how_to_authenticate_and_closes_the_way_to_everything(asked):
    answer = asked.ask("GET", "/api/v1/projects")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "UNAUTHORIZED"


def test_a_viewer_may_read_all_but_credentials_and_change_nothing(asked, viewer):
    for (method, path), status in statuses(asked, viewer.secret).items():
        if (method, path) in OPEN | ANYBODY:
            continue
        may = method == "GET" and "/credentials" not in path and (method, path) not in CONSUMERS
        assert (status != 403) == may, (method, path, status)


def test_an_operator_may_call_everything_but_what_is_for_clients(asked, operator):
    for operation, status in statuses(asked, operator.secret).items():
        assert (status == 403) == (operation in ANYBODY | CONSUMERS), (operation, status)
        assert status < 500


def test_a_service_client_may_call_nothing_but_what_is_for_clients(asked, operator, catalogue):
    issued = operator.make(f"/service-clients/{catalogue.client['id']}/credentials", name="one")
    for operation, status in statuses(asked, issued["secret"]).items():
        if operation not in OPEN | ANYBODY:
            assert (status == 403) == (operation not in CONSUMERS), operation


def test_a_role_is_told_from_a_path_before_a_body_is_read(asked, viewer, operator):
    """401, 403, 404, 422: each hides what comes after it."""
    path = f"/api/v1/project-bindings/{NOWHERE}/activate"
    for headers, status in (
        ([], 401),
        ([(b"authorization", f"Bearer {viewer.secret}".encode())], 403),
        ([(b"authorization", f"Bearer {operator.secret}".encode())], 404),
    ):
        seen = exchange(asked.hub.app, path, headers=headers, chunks=[b"{", b"no end"], ends=False)
        assert (seen.status, seen.read_before_answer) == (status, 0)


def test_a_known_path_with_a_bad_body_is_a_422(operator, catalogue):
    path = f"/project-bindings/{catalogue.binding['id']}/activate"
    assert operator.send(path, b"{").status_code == 422
    assert operator.post(path, expected_version="1").status_code == 422


def test_every_change_of_something_unknown_is_a_404_whatever_the_body(asked, operator):
    changes = [
        path for method, path in operations(asked)
        if method == "POST" and "{" in path and (method, path) not in CONSUMERS
    ]  # fmt: skip
    assert len(changes) >= 9
    for path in changes:
        for body in (b"", b"{", b"{}", b'{"expected_version": 1, "name": "a"}'):
            headers = {"Authorization": f"Bearer {operator.secret}"}
            answer = asked.ask("POST", real(path), headers=headers, content=body)
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), (path, body)


def test_an_id_of_nothing_is_a_404_that_does_not_repeat_it(asked, operator):
    for method, path in operations(asked):
        if "{" in path and (method, path) not in CONSUMERS:
            answer = asked.ask(method, real(path), headers={"Authorization": f"Bearer {operator.secret}"})
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path
            assert NOWHERE not in answer.text, path


def test_an_id_that_is_none_is_a_404(operator):
    for text in ("abc", "1", NOWHERE + "0", f"urn:uuid:{NOWHERE}", "%00", "..%2F", f"{{{NOWHERE}}}", "%2F", "%ff"):
        assert operator.get(f"/projects/{text}").status_code == 404, text


def test_an_unknown_path_is_a_401_first_and_then_a_404(asked, viewer):
    assert asked.ask("GET", "/api/v1/nothing").status_code == 401
    assert viewer.get("/nothing").json()["code"] == "NOT_FOUND"


WRONG_METHODS = [
    ("PUT", "/api/v1/projects", "GET, POST"),
    ("OPTIONS", "/api/v1/projects", "GET, POST"),
    ("HEAD", "/api/v1/projects", "GET, POST"),
    ("DELETE", f"/api/v1/projects/{NOWHERE}", "GET"),
    ("GET", f"/api/v1/routes/{NOWHERE}/activate", "POST"),
    ("POST", "/health", "GET, HEAD"),
    ("GET", "/v1/embeddings", "POST"),
    ("BREW", "/metrics", "GET, HEAD"),
]


def test_a_wrong_method_is_a_405_with_all_that_are_right(asked, operator):
    for method, path, allowed in WRONG_METHODS:
        answer = asked.ask(method, path, headers={"Authorization": f"Bearer {operator.secret}"})
        assert (answer.status_code, answer.headers["Allow"]) == (405, allowed), (method, path)


def test_a_trailing_slash_is_another_path_and_nothing_redirects(viewer):
    answer = viewer.client.get(
        "/api/v1/projects/", headers={"Authorization": f"Bearer {viewer.secret}"}, follow_redirects=False
    )
    assert answer.status_code == 404


def test_open_paths_need_no_credential(asked):
    for path in ("/health", "/openapi.json"):
        for method in ("GET", "HEAD"):
            assert asked.ask(method, path).status_code == 200


def test_metrics_are_for_who_watches(asked, viewer, operator, catalogue):
    client = operator.make(f"/service-clients/{catalogue.client['id']}/credentials", name="one")["secret"]
    for secret, status in ((None, 401), (client, 403), (viewer.secret, 200), (operator.secret, 200)):
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        assert asked.ask("GET", "/metrics", headers=headers).status_code == status


def bearer_status(asked: Asked, *values: bytes) -> int:
    headers = [(b"authorization", value) for value in values]
    return exchange(asked.hub.app, "/api/v1/projects", method="GET", headers=headers).status


def test_the_scheme_may_be_written_in_any_case(asked, viewer):
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert bearer_status(asked, f"{scheme} {viewer.secret}".encode()) == 200
        assert bearer_status(asked, f"{scheme}   {viewer.secret} ".encode()) == 200


def test_several_authorization_headers_are_none(asked, viewer):
    value = f"Bearer {viewer.secret}".encode()
    assert bearer_status(asked, value, value) == 401
    assert bearer_status(asked, value, b"") == 401


NO_BEARERS = [
    b"", b"Bearer", b"Bearer ", b"Basic %s", b"%s", b"Bearer: %s", b"Bearer\t%s", b"Bearer %s,", b"Bearer %s %s",
    b"Bearer \xff%s", b"Bearer %s\x00", b"Bearer \xc3\xa9", b"Bearer steelyard_client_", b"Bearer " + b"a" * 60_000,
]  # fmt: skip


def test_what_is_no_bearer_is_a_401(asked, viewer):
    for value in NO_BEARERS:
        assert bearer_status(asked, value.replace(b"%s", viewer.secret.encode())) == 401, value[:40]


class CountedDatabase(Database):
    """A database that counts its reads."""

    reads = 0

    def read(self):
        self.reads += 1
        return super().read()


def test_a_mistyped_secret_is_refused_without_a_read_of_the_database(database_url):
    from tests.hub_api import Asked  # noqa: PLC0415

    database = CountedDatabase(database_url)
    asked = Asked(database)
    secret = asked.caller("viewer").secret
    before = database.reads
    typo = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    assert bearer_status(asked, f"Bearer {typo}".encode()) == 401
    assert database.reads == before
    assert bearer_status(asked, f"Bearer {new_secret('viewer').text}".encode()) == 401
    assert database.reads == before + 1
    asked.close()
    database.close()


def test_a_right_public_id_with_other_bits_is_a_401(asked, viewer):
    from steelyard.hub.credentials import domain  # noqa: PLC0415

    head = viewer.secret[: -43 - 6] + "1" * 43
    assert bearer_status(asked, f"Bearer {head}{domain._crc_of(head)}".encode()) == 401


def test_an_unknown_public_id_is_answered_after_a_comparison_as_a_known_one_is(asked, viewer, monkeypatch):
    compared = []
    real = hmac.compare_digest

    def note(sent: str, kept: str) -> bool:
        compared.append((len(sent), len(kept)))
        return real(sent, kept)

    monkeypatch.setattr(hmac, "compare_digest", note)
    for secret, status in ((viewer.secret, 200), (new_secret("viewer").text, 401)):
        compared.clear()
        assert bearer_status(asked, f"Bearer {secret}".encode()) == status
        assert compared == [(64, 64)]


def test_a_secret_of_one_role_does_not_become_another_ones(asked, viewer):
    from steelyard.hub.credentials import domain  # noqa: PLC0415

    head = viewer.secret.replace("_viewer_", "_operator_")[:-6]
    assert bearer_status(asked, f"Bearer {head}{domain._crc_of(head)}".encode()) == 401


def test_every_answer_has_its_requests_id_and_a_problem_names_it(asked, viewer):
    seen = set()
    for path in ("/health", "/api/v1/projects", "/api/v1/nothing"):
        answer = asked.ask("GET", path, headers={"Authorization": f"Bearer {viewer.secret}"})
        seen.add(answer.headers["x-request-id"])
    assert len(seen) == 3
    assert uuid.UUID(answer.headers["x-request-id"]).urn == answer.json()["instance"]


def test_a_caller_cannot_choose_the_requests_id(asked):
    answer = asked.ask("GET", "/health", headers={"x-request-id": "mine"})
    assert answer.headers.get_list("x-request-id") != ["mine"]


def test_the_trail_names_the_credential_and_the_request(operator):
    answer = operator.post("/projects", slug="a", name="A")
    [event] = operator.get("/audit-events", action="project.create").json()["items"]
    assert event["actor"] == operator.secret.split("_")[2]
    assert (event["actor_role"], event["request_id"]) == ("operator", answer.headers["x-request-id"])


def test_two_projects_do_not_see_each_others_things_as_their_own(operator):
    one, other = fill(operator, "one"), fill(operator, "other")
    parts = {
        "artifact_id": one.artifact["id"],
        "runtime_id": other.runtime["id"],
        "embedding_identity_id": one.identity["id"],
    }
    answer = operator.post("/deployments", slug="mixed", stage="production", **parts)
    assert (answer.status_code, json.loads(answer.content)["code"]) == (422, "INVALID_REQUEST")

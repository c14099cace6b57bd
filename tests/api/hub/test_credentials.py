"""Issuing, rotating and revoking credentials, and the limits on who calls."""

from __future__ import annotations

import re

import pytest
from tests.api.asgi import exchange
from tests.hub_api import Asked

from steelyard.hub.credentials.domain import new_secret


def issue(operator, catalogue, name="one"):
    return operator.make(f"/service-clients/{catalogue.client['id']}/credentials", name=name)


def can_call(asked, secret):
    """Tell whether the gate lets the holder of *secret* in."""
    return asked.ask("GET", "/v1/models", headers={"Authorization": f"Bearer {secret}"}).status_code != 401


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_secret_is_in_the_answer_that_issues_it_and_is_not_kept_there(asked, operator, role):
    answer = operator.post("/credentials", role=role, name="A person")
    issued = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Location"] == f"/api/v1/credentials/{issued['credential']['id']}"
    assert issued["secret"].split("_")[1:3] == [role, issued["credential"]["public_id"]]
    assert can_call(asked, issued["secret"])
    shown = operator.client.get(answer.headers["Location"], headers={"Authorization": f"Bearer {operator.secret}"})
    assert shown.json() == issued["credential"]


def test_only_the_hash_of_a_secret_is_kept(asked, operator):
    from sqlalchemy import select  # noqa: PLC0415

    from steelyard.hub.credentials.domain import sha256_of_secret  # noqa: PLC0415
    from steelyard.hub.db.tables import credentials  # noqa: PLC0415

    secret = operator.make("/credentials", role="viewer", name="v")["secret"]
    with asked.database.read() as connection:
        rows = [dict(row._mapping) for row in connection.execute(select(credentials))]
    assert sha256_of_secret(secret) in {row["secret_sha256"] for row in rows}
    assert secret not in str(rows)
    assert secret.rpartition("_")[2][:43] not in str(rows)


def test_no_other_answer_shows_a_secret_or_a_hash(operator, catalogue):
    issued = issue(operator, catalogue)
    for path in ("/credentials", f"/credentials/{issued['credential']['id']}", "/audit-events"):
        assert not re.search(r"steelyard_(viewer|operator|client)_", operator.get(path).text)
        assert "sha256" not in operator.get(path).json().get("items", [{}])[0]


def test_a_client_rotates_with_two_live_secrets_and_never_three(asked, operator, catalogue):
    first, second = issue(operator, catalogue, "one"), issue(operator, catalogue, "two")
    assert can_call(asked, first["secret"])
    assert can_call(asked, second["secret"])
    third = operator.post(f"/service-clients/{catalogue.client['id']}/credentials", name="three")
    assert (third.status_code, third.json()["code"]) == (409, "NOT_ELIGIBLE")
    assert "secret" not in third.json()

    operator.post(f"/credentials/{first['credential']['id']}/revoke")
    assert not can_call(asked, first["secret"])
    assert can_call(asked, second["secret"])
    third = issue(operator, catalogue, "three")
    assert can_call(asked, third["secret"])


def test_a_revoked_credential_is_refused_at_once_and_stays_revoked(asked, operator):
    viewer = operator.make("/credentials", role="viewer", name="v")
    assert can_call(asked, viewer["secret"])
    first = operator.post(f"/credentials/{viewer['credential']['id']}/revoke")
    assert not can_call(asked, viewer["secret"])
    again = operator.post(f"/credentials/{viewer['credential']['id']}/revoke")
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    events = operator.get("/audit-events", action="credential.revoke").json()["items"]
    assert len(events) == 1, "what changes nothing leaves no event"


def test_a_credential_is_revoked_in_the_other_processes_too(asked, operator):
    other = Asked(asked.database)
    viewer = operator.make("/credentials", role="viewer", name="v")
    assert can_call(other, viewer["secret"])
    operator.post(f"/credentials/{viewer['credential']['id']}/revoke")
    assert not can_call(other, viewer["secret"])
    other.close()


def test_a_revoked_clients_secrets_are_refused_and_it_gets_no_more(asked, operator, catalogue):
    secrets = [issue(operator, catalogue, name)["secret"] for name in ("one", "two")]
    assert operator.post(f"/service-clients/{catalogue.client['id']}/revoke", expected_version=1).status_code == 200
    assert not any(can_call(asked, secret) for secret in secrets)
    refused = operator.post(f"/service-clients/{catalogue.client['id']}/credentials", name="three")
    assert (refused.status_code, refused.json()["code"]) == (409, "NOT_ELIGIBLE")


def test_the_last_live_operator_cannot_be_revoked(asked, operator):
    [own] = operator.get("/credentials", role="operator").json()["items"]
    refused = operator.post(f"/credentials/{own['id']}/revoke")
    assert (refused.status_code, refused.json()["code"]) == (409, "NOT_ELIGIBLE")
    other = asked.holder(operator.make("/credentials", role="operator", name="next")["secret"])
    assert other.post(f"/credentials/{own['id']}/revoke").status_code == 200
    assert not can_call(asked, operator.secret)
    [left] = other.get("/credentials", role="operator", limit=1).json()["items"]
    assert other.post(f"/credentials/{left['id']}/revoke").status_code == 409


def test_a_viewers_credential_may_always_be_revoked(operator, viewer):
    [own] = operator.get("/credentials", role="viewer").json()["items"]
    assert operator.post(f"/credentials/{own['id']}/revoke").json()["revoked_at"]


def test_a_credential_is_found_by_its_public_id(operator):
    made = [operator.make("/credentials", role="viewer", name=name)["credential"] for name in "ab"]
    assert operator.get("/credentials", public_id=made[0]["public_id"]).json()["items"] == [made[0]]
    assert operator.get("/credentials", public_id="no public id").status_code == 422


def test_credentials_are_listed_by_role_and_client(operator, viewer, catalogue):
    issued = issue(operator, catalogue)
    assert [c["id"] for c in operator.get("/credentials", role="client").json()["items"]] == [
        issued["credential"]["id"]
    ]
    by_client = operator.get("/credentials", service_client_id=catalogue.client["id"]).json()["items"]
    assert [c["name"] for c in by_client] == ["one"]
    assert [c["role"] for c in operator.get("/credentials").json()["items"]] == ["client", "viewer", "operator"]


def test_nobody_is_issued_what_there_is_not(operator):
    for role, name in (("client", "c"), ("root", "c"), ("viewer", ""), (None, "c"), ("viewer", None)):
        assert operator.post("/credentials", role=role, name=name).status_code == 422


# The limits. The clock is the process's own, so rates are set so low that no test could wait for them.


def failing(asked, address, count):
    """Return the answers to *count* requests of an address without a valid credential."""
    seen = []
    for _ in range(count):
        scope_client = (address, 1)
        seen.append(exchange(asked.hub.app, "/api/v1/projects", method="GET", headers=[], client=scope_client))
    return seen


@pytest.fixture
def strict(database):
    asked = Asked(database, failures_per_minute=3, calls_per_second=0.01)
    yield asked
    asked.close()


def test_failures_of_one_address_are_limited_and_no_other_one_suffers(strict):
    statuses = [seen.status for seen in failing(strict, "192.0.2.7", 5)]
    assert statuses == [401, 401, 401, 429, 429]
    assert [seen.status for seen in failing(strict, "192.0.2.8", 1)] == [401]
    [refused] = failing(strict, "192.0.2.7", 1)
    assert 1 <= int(refused.header(b"retry-after")) <= 20
    assert b"TOO_MANY_REQUESTS" in refused.body


def test_a_valid_credential_passes_from_an_address_that_others_fail_from(strict):
    """Behind one proxy all callers have one address."""
    assert [seen.status for seen in failing(strict, "192.0.2.7", 4)][-1] == 429
    viewer = strict.caller("viewer")
    headers = [(b"authorization", f"Bearer {viewer.secret}".encode())]
    seen = exchange(strict.hub.app, "/api/v1/projects", method="GET", headers=headers, client=("192.0.2.7", 1))
    assert seen.status == 200


def test_no_header_names_an_address(strict):
    statuses = [
        exchange(
            strict.hub.app,
            "/api/v1/projects",
            method="GET",
            headers=[(b"x-forwarded-for", f"192.0.2.{number}".encode()), (b"forwarded", b"for=192.0.2.1")],
            client=("192.0.2.7", 1),
        ).status
        for number in range(5)
    ]
    assert statuses == [401, 401, 401, 429, 429]


def test_an_ipv6_site_cannot_fail_from_each_of_its_addresses(strict):
    statuses = [failing(strict, f"2001:db8::{number}", 1)[0].status for number in range(5)]
    assert statuses == [401, 401, 401, 429, 429]


def test_guesses_of_secrets_are_failures_too(strict):
    statuses = []
    for _ in range(5):
        headers = [(b"authorization", f"Bearer {new_secret('operator').text}".encode())]
        statuses.append(exchange(strict.hub.app, "/metrics", method="GET", headers=headers).status)
    assert statuses == [401, 401, 401, 429, 429]


def test_the_calls_of_one_credential_are_limited_and_no_other_one_suffers(strict):
    one, other = strict.caller("viewer"), strict.caller("viewer")
    assert one.get("/projects").status_code == 200
    refused = one.get("/projects")
    assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")
    assert 1 <= int(refused.headers["Retry-After"]) <= 100
    assert other.get("/projects").status_code == 200


def test_open_paths_are_not_limited(strict):
    failing(strict, "127.0.0.1", 5)
    assert [exchange(strict.hub.app, "/health", method="GET", headers=[]).status for _ in range(9)] == [200] * 9

"""Whatever is sent, the answer is a problem of the contract, repeats nothing, and is never a failure."""

from __future__ import annotations

import gzip
import json
import sqlite3
import uuid
from contextlib import contextmanager

import pytest
from backports import zstd
from tests.api.asgi import exchange
from tests.hub_api import Asked

from steelyard.hub.db.database import Database
from steelyard.hub.db.errors import StoreBusy, StoreUnavailable

CANARY = "canary-5f1d0c"
PROJECT = {"slug": "a", "name": "A"}
CODES = {
    401: {"UNAUTHORIZED"},
    403: {"FORBIDDEN"},
    404: {"NOT_FOUND"},
    405: {"METHOD_NOT_ALLOWED"},
    408: {"REQUEST_TIMEOUT"},
    409: {"SLUG_TAKEN", "BINDING_EXISTS", "VERSION_CONFLICT", "NOT_ELIGIBLE"},
    413: {"REQUEST_TOO_LARGE"},
    415: {"UNSUPPORTED_ENCODING"},
    422: {"INVALID_REQUEST", "UNKNOWN_REFERENCE"},
}


def check_problem(status, headers, body):
    """Fail unless the answer is one of the contract's problems, without the canary."""
    assert status in CODES, (status, body)
    problem = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert problem["code"] in CODES[status], problem
    assert problem["status"] == status
    assert set(problem) <= {
        "type",
        "title",
        "status",
        "detail",
        "instance",
        "code",
        "retryable",
        "current_version",
        "errors",
    }
    assert problem.get("retryable") == (True if status in (408, 429, 503) else None)
    assert CANARY not in str(body)
    assert CANARY not in str(headers)
    assert len(body) < 20_000


def refused(answer, *statuses):
    check_problem(answer.status_code, answer.headers, answer.content)
    assert answer.status_code in statuses, answer.text


BODIES = {
    "empty": b"",
    "half": b'{"slug": "' + CANARY.encode(),
    "no object": b"[1, 2]",
    "a text": f'"{CANARY}"'.encode(),
    "null": b"null",
    "NUL": b'{"slug": "a", "name": "canary-5f1d0c\\u0000"}',
    "NUL in a key": b'{"slug": "a", "name": "A", "canary-5f1d0c\\u0000": 1}',
    "a raw NUL": b'{"slug": "a", "name": "A\x00"}',
    "a lone surrogate": b'{"slug": "a", "name": "canary-5f1d0c\\ud800"}',
    "bytes that are no UTF-8": b'{"slug": "a", "name": "\xff"}',
    "a huge integer": b'{"slug": "a", "name": ' + b"9" * 5000 + b"}",
    "a large integer": b'{"slug": "a", "name": ' + b"9" * 4000 + b"}",
    "a large exponent": b'{"slug": "a", "name": 1e999999}',
    "NaN": b'{"slug": "a", "name": NaN}',
    "deep": b'{"slug": "a", "name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep but read": b'{"slug": "a", "name": ' + b"[" * 400 + b"]" * 400 + b"}",
    "many unknown names": json.dumps({f"{CANARY}{number}": 1 for number in range(5000)}).encode(),
    "a long name": json.dumps({**PROJECT, CANARY * 100_000: 1}).encode(),
    "a long text": json.dumps({**PROJECT, "name": CANARY * 100_000}).encode(),
    "a wrong slug": json.dumps({**PROJECT, "slug": CANARY.upper()}).encode(),
    "a list for a text": json.dumps({**PROJECT, "name": [CANARY]}).encode(),
    "a form": f"slug={CANARY}&name=A".encode(),
    "XML": f"<slug>{CANARY}</slug>".encode(),
}  # fmt: skip


def test_no_body_is_a_failure_or_comes_back(operator):
    for name, body in BODIES.items():
        for path in ("/projects", "/credentials", "/suites"):
            assert operator.send(path, body).status_code == 422, name
            refused(operator.send(path, body), 422)
    assert operator.get("/projects").json()["items"] == []


def test_the_last_of_two_equal_keys_counts_as_in_pythons_json(operator):
    answer = operator.send("/projects", b'{"slug": "a", "name": "A", "name": "B"}')
    assert (answer.status_code, answer.json()["name"]) == (201, "B")


def test_no_field_is_a_failure_or_comes_back(operator, catalogue):
    """Every field of every request takes odd values in turn."""
    own = {"project_id": catalogue.project["id"]}
    valid = {
        "/project-bindings": own,
        "/service-clients": {"project_binding_id": catalogue.binding["id"], "slug": "x", "name": "X"},
        "/artifacts": {**own, "slug": "x", "source": "s", "revision": "r", "files": {"f": "ab" * 32}},
        "/runtimes": {**own, "slug": "x", "kind": "vllm", "base_url": "http://h/v1", "timeout_s": 1},
        "/embedding-identities": {
            **own, "slug": "x", "model": "m", "dimension": 4, "pooling": "mean", "is_normalized": True,
            "max_length": 8, "dtype": "f", "query_prompt": "q", "document_prompt": "d",
        },
        f"/project-bindings/{catalogue.binding['id']}/activate": {"expected_version": 1},
        f"/deployments/{catalogue.candidate['id']}/stage": {"expected_version": 1, "stage": "production"},
        f"/service-clients/{catalogue.client['id']}/credentials": {"name": "n"},
    }  # fmt: skip
    odd: list[object] = [
        None, True, -1, 0, 10**30, 2**31, 1.5, CANARY, CANARY.upper() * 3000, f"{CANARY}\x00", [CANARY],
        {CANARY: CANARY}, {"f": CANARY}, [[[]]], "", {},
    ]  # fmt: skip
    for path, body in valid.items():
        for field in body:
            for value in odd:
                answer = operator.post(path, **{**body, field: value})
                if answer.status_code >= 400:
                    refused(answer, 409, 422)


def test_content_type_says_nothing(asked, operator):
    for number, kind in enumerate(
        ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "\xff")
    ):
        answer = asked.ask(
            "POST",
            "/api/v1/projects",
            headers={"Authorization": f"Bearer {operator.secret}", "Content-Type": kind.encode("latin-1")},
            content=json.dumps({"slug": f"a{number}", "name": "A"}),
        )
        assert answer.status_code == 201


def test_compressed_bodies_are_read_and_counted_decompressed(asked, operator):
    body = json.dumps(PROJECT).encode()
    for number, (name, packed) in enumerate((("gzip", gzip.compress(body)), ("zstd", zstd.compress(body)))):
        headers = {"Authorization": f"Bearer {operator.secret}", "Content-Encoding": name}
        answer = asked.ask("POST", "/api/v1/projects", headers=headers, content=packed)
        assert answer.status_code == (201 if number == 0 else 409)
        refused(asked.ask("POST", "/api/v1/projects", headers=headers, content=packed[:-3]), 422)
        bomb = gzip.compress(b" " * (9 << 20)) if name == "gzip" else zstd.compress(b" " * (9 << 20))
        refused(asked.ask("POST", "/api/v1/projects", headers=headers, content=bomb), 413)
    for name in ("br", CANARY, "gzip, zstd"):
        headers = {"Authorization": f"Bearer {operator.secret}", "Content-Encoding": name}
        refused(asked.ask("POST", "/api/v1/projects", headers=headers, content=body), 415)


def test_a_large_body_is_a_413(operator):
    refused(operator.send("/projects", b'{"slug": "' + b"a" * (10 << 20) + b'"}'), 413)


def test_no_path_is_a_failure_or_comes_back(asked, operator):
    own = {"Authorization": f"Bearer {operator.secret}"}
    for path in (
        f"/api/v1/projects/{CANARY}", f"/api/v1/{CANARY}", "/api/v1/projects%2F", "/api/v1/projects/%00", "/%00",
        "/api/v1/projects/%ff%fe", "/api/v1/projects/..%2f..%2fetc%2fpasswd", "/api/v1//projects",
        "/api/v1/projects;" + CANARY, "/" + CANARY * 5000, "/api/v1/projects/%F0%9F%98%80",
    ):  # fmt: skip
        refused(asked.ask("GET", path, headers=own), 404)


def test_no_target_is_a_failure(asked, operator):
    """What a raw client may write in its first line: an absolute form, an authority, an asterisk."""
    headers = [(b"authorization", f"Bearer {operator.secret}".encode())]
    for target in ("http://h/api/v1/projects", "//api/v1/projects", "h:443", "*", "", "api/v1/projects"):
        seen = exchange(asked.hub.app, target, method="GET", headers=headers)
        assert seen.status == 404


def test_no_query_is_a_failure_or_comes_back(asked, operator):
    own = {"Authorization": f"Bearer {operator.secret}"}
    for query in (
        f"slug={CANARY.upper()}", f"{CANARY}=1", "limit=" + "9" * 50_000, "limit=%00", "slug=%00", "slug=%ed%a0%80",
        "slug=%ff", "limit=1&limit=x", "limit=" + CANARY, "offset=1e3", "limit=١", "offset=-0x1",
        "&".join(f"{CANARY}{number}=1" for number in range(3000)),
    ):  # fmt: skip
        refused(asked.ask("GET", f"/api/v1/projects?{query}", headers=own), 422)
    for query in (f"project_id={CANARY}", "project_id=%00", "actor=a%20b", f"actor={CANARY}%00", "action=*"):
        refused(asked.ask("GET", f"/api/v1/audit-events?{query}", headers=own), 422)


def test_no_header_is_a_failure_or_comes_back(asked, operator):
    for name in (b"x-request-id", b"host", b"origin", b"cookie", b"accept", b"traceparent", b"transfer-encoding"):
        headers = [(b"authorization", f"Bearer {operator.secret}".encode()), (name, CANARY.encode() + b"\xff")]
        seen = exchange(asked.hub.app, "/api/v1/projects?limit=0", method="GET", headers=headers)
        assert seen.status == 422
        assert CANARY.encode() not in seen.body + str(seen.headers).encode()


def test_a_long_list_of_faults_is_cut(operator):
    answer = operator.post("/suites", **{f"{CANARY}{number}": 1 for number in range(20)})
    refused(answer, 422)
    assert len(answer.json()["errors"]) == 20
    answer = operator.post("/suites", **{f"{CANARY}{number}": 1 for number in range(500)})
    refused(answer, 422)
    assert [error["where"] for error in answer.json()["errors"]] == ["body"]


def test_a_problem_names_its_request_and_not_its_path(operator):
    answer = operator.get(f"/{CANARY}")
    assert answer.json()["instance"] == uuid.UUID(answer.headers["x-request-id"]).urn


# A store that fails. The errors are those that `db` gives for what a driver raises.


class FailingDatabase(Database):
    """A database that fails once it is told to."""

    error: BaseException | None = None
    spared_reads = 0

    @contextmanager
    def read(self):
        if self.spared_reads:
            self.spared_reads -= 1
        elif self.error is not None:
            raise self.error
        with super().read() as connection:
            yield connection

    @contextmanager
    def write(self):
        if self.error is not None:
            raise self.error
        with super().write() as connection:
            yield connection


@pytest.fixture
def failing(sqlite_databases):
    """Give a hub whose database can be told to fail, and an operator of it."""
    with sqlite_databases.fresh() as url:
        database = FailingDatabase(url)
        asked = Asked(database)
        yield database, asked.caller("operator")
        database.error = None
        asked.close()
        database.close()


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreBusy])
@pytest.mark.parametrize("spared", [0, 1], ids=["in the guard", "in the endpoint"])
def test_a_store_that_is_away_is_a_503_with_a_time_to_wait_wherever_it_is_missed(failing, kind, spared):
    database, operator = failing
    database.error = kind()
    for call in (lambda: operator.get("/projects"), lambda: operator.post("/projects", **PROJECT)):
        database.spared_reads = spared
        answer = call()
        assert (answer.status_code, answer.json()["code"]) == (503, kind.code.upper())
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.headers["x-request-id"]


@pytest.mark.parametrize("spared", [0, 1], ids=["in the guard", "in the endpoint"])
def test_what_nobody_foresaw_is_a_500_that_says_nothing_and_a_traceback_in_the_log(failing, spared, caplog):
    database, operator = failing
    database.error = RuntimeError(CANARY)
    database.spared_reads = spared
    answer = operator.get("/projects")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL_ERROR")
    assert CANARY not in answer.text
    assert "Traceback" in caplog.text


def test_health_needs_no_store(failing):
    database, operator = failing
    database.error = StoreUnavailable()
    assert operator.client.get("/health").status_code == 200


def test_a_store_that_is_away_from_the_gateway_is_answered_in_openais_shape(failing):
    database, operator = failing
    database.error = StoreUnavailable()
    answer = operator.client.get("/v1/models", headers={"Authorization": f"Bearer {operator.secret}"})
    assert answer.status_code == 503
    assert set(answer.json()) == {"error"}
    assert answer.headers["Retry-After"]


def test_a_database_that_another_process_has_locked_is_a_503(sqlite_databases):
    from steelyard.hub.db.database import Limits  # noqa: PLC0415

    with sqlite_databases.fresh() as url:
        database = Database(url, limits=Limits(wait_s=0.2))
        asked = Asked(database)
        operator = asked.caller("operator")
        with sqlite3.connect(database.path, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = operator.post("/projects", **PROJECT)
            assert operator.get("/projects").status_code == 200
            other.execute("ROLLBACK")
        other.close()
        assert (answer.status_code, answer.json()["code"]) == (503, "STORE_BUSY")
        assert answer.headers["Retry-After"] == "1"
        assert operator.post("/projects", **PROJECT).status_code == 201
        asked.close()
        database.close()

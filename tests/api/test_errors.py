"""Errors: one envelope, one table, one order of checks, short messages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.api.asgi import BEARER, DECISION, OPTIONS, ROW, Served, exchange

from steelyard.decide.api.errors import STATUS_OF, answer_for
from steelyard.decide.api.openapi import openapi_document
from steelyard.decide.domain.errors import DecideError, InvalidRequest, OutOfMemory, ScoringFailed
from steelyard.decide.engines.fake import FakeEngine
from steelyard.web.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.hall.errors import SteelyardError

CONTRACT_CODES = {
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_encoding",
    422: "invalid_request",
    429: "busy",
}
BODY = json.dumps(ROW).encode()
PLUMBING = RequestRefused.__module__


def descendants(root: type[SteelyardError]) -> Iterator[type[SteelyardError]]:
    for child in root.__subclasses__():
        yield child
        yield from descendants(child)


def documented_codes() -> set[str]:
    error = openapi_document()["components"]["schemas"]["Error"]  # type: ignore[index]
    return set(error["properties"]["error"]["properties"]["code"]["enum"])


@pytest.mark.parametrize("error", list(descendants(DecideError)))
def test_every_domain_error_has_a_status(error: type[DecideError]) -> None:
    answer = answer_for(error("why"))
    assert answer.status_code == STATUS_OF[error]
    assert json.loads(bytes(answer.body)) == {"error": {"code": error.code, "message": "why"}}
    assert error.code in documented_codes()


def test_the_table_has_the_contracts_statuses_and_no_more() -> None:
    codes = {error.code: status for error, status in STATUS_OF.items()}
    assert set(STATUS_OF) == {InvalidRequest, OutOfMemory, ScoringFailed}
    assert codes == {"invalid_request": 422, "out_of_memory": 503, "scoring_failed": 500}


# Those that the shared plumbing raises; another room's own are that room's to test.
@pytest.mark.parametrize("error", [kind for kind in descendants(RequestRefused) if kind.__module__ == PLUMBING])
def test_every_refusal_has_a_status_and_a_code_of_its_own(error: type[RequestRefused]) -> None:
    assert "status" in vars(error)
    assert "code" in vars(error)
    answer = answer_for(error())
    assert answer.status_code == error.status
    content = json.loads(bytes(answer.body))
    assert content["error"]["code"] == error.code
    assert content["error"]["message"] == (error.__doc__ or "").partition("\n")[0]
    assert error.code == CONTRACT_CODES.get(error.status, error.code)
    assert error.code in documented_codes()


@pytest.mark.parametrize("error", [KeyError("x"), ZeroDivisionError(), ValueError("secret"), TypeError("secret")])
def test_what_nobody_foresaw_is_a_failed_scoring_that_tells_nothing(error: Exception) -> None:
    answer = answer_for(error)
    assert answer.status_code == 500
    assert json.loads(bytes(answer.body))["error"]["code"] == "scoring_failed"
    assert b"secret" not in answer.body


LARGE = (b"content-length", b"99999999")
BROTLI = (b"content-encoding", b"br")


@dataclass(frozen=True)
class Order:
    """A request that breaks two rules, and the status of the one that is checked first."""

    status: int
    before: str
    path: str = "/decide"
    method: str = "POST"
    headers: tuple[tuple[bytes, bytes], ...] = (BEARER,)
    body: bytes = b""
    is_busy: bool = False


ORDERS = [
    Order(401, "404", path="/nowhere", headers=()),
    Order(401, "405", method="GET", headers=()),
    Order(401, "429", headers=(), is_busy=True),
    Order(404, "429", path="/nowhere", is_busy=True),
    Order(405, "429", method="PUT", is_busy=True),
    Order(429, "415", headers=(BEARER, BROTLI), is_busy=True),
    Order(429, "413", headers=(BEARER, LARGE), is_busy=True),
    Order(429, "422", body=b"{", is_busy=True),
    Order(415, "413", headers=(BEARER, BROTLI, LARGE)),
    Order(415, "422", headers=(BEARER, BROTLI), body=b"{"),
    Order(413, "422", headers=(BEARER, LARGE), body=b"{"),
    Order(413, "422, though found only while reading", body=b"{" * 2_000_000),
    Order(422, "scoring", body=b'{"id": "[fake:failure]"}'),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: f"{order.status} before {order.before}")
def test_the_checks_come_in_the_contracts_order(serving, engine, order: Order) -> None:
    served = serving(engine, max_queue=1)
    if order.is_busy:
        served.server.admission.enter()
    headers = order.headers
    answer = exchange(served.server.app, order.path, method=order.method, headers=headers, chunks=[order.body])
    assert (answer.status, answer.error["code"]) == (order.status, CONTRACT_CODES[order.status])
    assert engine.calls == []


@pytest.mark.parametrize("path", ["/decide", "/decide/shared"])
def test_a_full_queue_refuses_before_the_body_is_read(serving, path: str) -> None:
    served = serving(max_queue=2)
    with served.server.admission.enter(), served.server.admission.enter():
        headers = [BEARER, (b"content-length", str(len(BODY)).encode())]
        answer = exchange(served.server.app, path, headers=headers, chunks=[BODY])
        assert (answer.status, answer.error["code"]) == (429, "busy")
        assert answer.read_before_answer == 0
        assert (answer.header(b"retry-after") or b"").isdigit()
        assert answer.header(b"connection") == b"close"
        assert served.client.get("/health").json()["queue"]["in_progress"] == 2
    assert served.decide().status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"), [("/decide", []), ("/nowhere", [BEARER]), ("/health", [BEARER]), ("/decide", [BEARER, BROTLI])]
)
def test_an_answer_before_the_body_was_read_closes_the_connection(served: Served, path: str, headers: list) -> None:
    with_body = [*headers, (b"content-length", str(len(BODY)).encode())]
    answer = exchange(served.server.app, path, headers=with_body, chunks=[BODY])
    assert answer.status in CONTRACT_CODES
    assert answer.header(b"connection") == b"close"


def test_an_answer_after_the_body_keeps_the_connection(served: Served) -> None:
    headers = [BEARER, (b"content-length", b"1")]
    answer = exchange(served.server.app, headers=headers, chunks=[b"{"])
    assert (answer.status, answer.header(b"connection")) == (422, None)
    answer = exchange(served.server.app, "/nowhere", method="GET", headers=[])
    assert (answer.status, answer.header(b"connection")) == (401, None)


@pytest.mark.parametrize("path", ["/decide", "/decide/shared"])
@pytest.mark.parametrize("place", ["state", "question", "options"])
@pytest.mark.parametrize(
    ("marker", "status", "code"),
    [
        ("[fake:out_of_memory]", 503, "out_of_memory"),
        ("[fake:failure]", 500, "scoring_failed"),
        ("[fake:nan]", 500, "scoring_failed"),
    ],
)
def test_an_engine_that_fails_answers_in_the_envelope_and_goes_on(
    served: Served, path: str, place: str, marker: str, status: int, code: str
) -> None:
    options = [{"id": "a", "description": marker}, *OPTIONS]
    row = {**ROW, place: options if place == "options" else f"x {marker} y"}
    body = row if path == "/decide" else {"state": row["state"], "decisions": [row, {**row, "id": "second"}]}
    answer = served.post(path, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert served.decide().status_code == 200
    assert served.shared(DECISION).status_code == 200
    assert not served.poisoned.is_set()
    assert served.server.admission.in_progress == 0


class _Raising(FakeEngine):
    """Raises *error* for every row that is no warm-up."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def _count(self, tokens) -> None:
        if FakeEngine().tokenizer.encode(" invoice")[0] in tokens:
            raise self._error


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RuntimeError("CUDA error: out of memory"), 503, "CUDA error: out of memory"),
        (RuntimeError("CUBLAS: Out Of Memory!"), 503, "CUBLAS: Out Of Memory!"),
        (OutOfMemory(""), 503, "CUDA out of memory"),
        (OutOfMemory("17 GiB wanted"), 503, "17 GiB wanted"),
        (MemoryError(), 503, "CUDA out of memory"),
        (RuntimeError("the device is gone"), 500, None),
        (KeyError("out of memory"), 500, None),
        (ScoringFailed("a logit is odd"), 500, "a logit is odd"),
        (StopIteration("x"), 500, None),
        (ValueError("Row is odd"), 422, "Row is odd"),
        (UnicodeEncodeError("utf-8", "x", 0, 1, "why"), 422, None),
    ],
    ids=repr,
)
def test_each_kind_of_scorer_failure_has_its_status(serving, error: Exception, status: int, message: str) -> None:
    answer = serving(_Raising(error)).decide(state="the invoice")
    assert answer.status_code == status
    if message:
        assert answer.json()["error"]["message"] == message
    elif status == 500:
        assert str(error) not in answer.json()["error"]["message"]


@pytest.mark.parametrize("model", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}], ids=repr)
def test_a_failure_while_the_response_is_built_is_a_500(serving, model: Mapping[str, object]) -> None:
    engine = FakeEngine()
    engine.model = model
    served = serving(engine)
    for answer in (served.decide(), served.shared(DECISION)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "scoring_failed")
    assert served.server.admission.in_progress == 0


class _Short(FakeEngine):
    """Forgets a logit, so that combining the orderings fails after the call."""

    def _logits(self, tokens, slots, *, known: int = 0) -> list[float]:
        return super()._logits(tokens, slots, known=known)[1:]


def test_a_failure_while_the_orderings_are_combined_is_a_500(serving) -> None:
    answer = serving(_Short()).decide(orderings="rotations")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "scoring_failed")


LONG = "x" * 10_000
LONG_ROWS: dict[str, dict] = {
    "id with too many tokens": {**ROW, "id": LONG, "state": "word " * 9000},
    "id in a fault": {**ROW, "id": LONG, "options": []},
    "workload": {**ROW, "workload": LONG},
    "orderings": {**ROW, "orderings": LONG},
    "option id": {**ROW, "options": [{"id": LONG, "description": LONG}] * 2},
    "further key": {LONG: LONG},
}


@pytest.mark.parametrize("row", LONG_ROWS.values(), ids=LONG_ROWS.keys())
def test_messages_quote_only_a_short_piece(served: Served, row: dict) -> None:
    answer = served.post("/decide", row)
    assert answer.status_code == 422
    assert len(answer.json()["error"]["message"]) < 250


def test_a_colliding_id_is_quoted_in_short(served: Served) -> None:
    ids = [LONG, LONG + "#o1"]
    answer = served.shared(*({**DECISION, "id": name, "orderings": "rotations"} for name in ids))
    assert answer.status_code == 422
    assert len(answer.json()["error"]["message"]) < 250


def test_an_id_with_a_line_break_does_not_break_the_message(served: Served) -> None:
    answer = served.decide(id="a\nb\x1b[31m", state="word " * 9000)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].isprintable()

"""Every call that a consumer makes, as a serving hub answers it, written for docs/howto/comparison-consumer.md.

Run this file to write the page's exchanges anew, and look at the difference. What differs from run to run is replaced:
ids by others in the order of their first appearance, secrets by dots, measured milliseconds by one number.
"""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.databases import SqliteDatabases
from tests.gateway.consumer_world import CASES, CHUNKS, PATH, Shop, shop
from tests.gateway.upstreams import serving_upstream

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "comparison-consumer.md"
PART = re.compile(r"(<!-- exchange: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
REVISION = "3d27d30c982eab1e574a94d3cffba29cbecd666c2ad6e095f5b8c7fceb8597f1"
WIDTH = 100
LATENCY_MS = 12.5
HEADERS = ("cache-control", "retry-after", "idempotent-replayed", "x-request-id")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_TOKEN = re.compile(r"steelyard_claim_[\w-]{43}")


@dataclass
class Clock:
    """The time, which stands until a test moves it."""

    now: datetime = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Exchange:
    """One request and its answer; *keep* names the fields of the answer that are shown, where not all are."""

    method: str
    path: str
    body: Any
    answer: httpx2.Response
    keep: tuple[str, ...] = ()

    @property
    def content(self) -> Any:
        """The answer's JSON, as far as it is shown."""
        content = self.answer.json()
        if "items" in content:
            return content | {"items": [self._kept(item) for item in content["items"]]}
        return self._kept(content)

    def _kept(self, content: dict[str, Any]) -> dict[str, Any]:
        if not self.keep:
            return content
        return {name: content[name] for name in self.keep} | {"…": "…"}


@dataclass
class Recorder:
    """Calls a hub and keeps each exchange by its name."""

    shop: Shop
    clock: Clock
    exchanges: dict[str, Exchange] = field(default_factory=dict)

    def call(
        self, name: str, path: str, body: Any = None, *, method: str = "POST", secret: str | None = None,
        keep: tuple[str, ...] = (), seconds: float = 1,
    ) -> Any:  # fmt: skip
        """Send one request of the consumer's, keep the exchange, and return the answer's JSON."""
        sent = {} if body is None else {"json": body}
        answer = self.shop.served.ask(method, path, secret=secret or self.shop.consumer.secret, **sent)
        self.exchanges[name] = Exchange(method, path, body, answer, keep)
        self.clock.wait(seconds)
        return answer.json()

    def of(self, comparison: Any, name: str, call: str, **body: Any) -> Any:
        """Send a call on a comparison."""
        keep = body.pop("keep", ())
        return self.call(name, f"/api/v1{PATH}/{comparison['id']}/{call}", body or None, keep=keep)

    def change_route(self, verb: str, version: int) -> None:
        """Close or open the experiment's route."""
        route = self.shop.things["route"]["id"]
        assert self.shop.operator.post(f"/routes/{route}/{verb}", expected_version=version).status_code == 200

    def result(self, claim: Any) -> dict[str, Any]:
        """Embed every query on both legs, and return a result."""
        body: dict[str, Any] = {
            "claim_token": claim["claim_token"],
            "pins_digest": claim["comparison"]["pins_digest"],
            "consumer_revision_sha256": REVISION,
        }
        for leg, route in (("current", "stable"), ("candidate", "trial")):
            answers = {case["case_id"]: self.shop.embed([case["query"]], route=route) for case in claim["cases"]}
            body[leg] = {"results": [self.found(case, leg) for case in claim["cases"]]}
            body[f"{leg}_gateway_requests"] = {
                case_id: answer.headers["x-request-id"] for case_id, answer in answers.items()
            }
        self.clock.wait(1)
        return body

    @staticmethod
    def found(case: Any, leg: str) -> dict[str, Any]:
        """Return what a leg gave for a case: its labelled chunks and another; the candidate finds a kettle late."""
        labels = list(CASES[case["case_id"]][1])
        chunks = [*labels, *(chunk for chunk in CHUNKS if chunk not in labels)][:2]
        if leg == "candidate" and "kettles" in labels:
            chunks.reverse()
        hits = [{"chunk_id": chunk, "score": 0.9 - place / 4} for place, chunk in enumerate(chunks)]
        return {"case_id": case["case_id"], "ranked_results": hits, "latency_ms": LATENCY_MS + len(case["query"])}


SHORT = ("id", "status", "version", "ended_at", "error_code")


def record(shop_: Shop, clock: Clock) -> Mapping[str, Exchange]:
    """Go through everything that a consumer may meet."""
    recorder = Recorder(shop_, clock)
    whole_course(recorder)
    lost_claim_and_refusals(recorder)
    cancelled(recorder)
    expired(recorder)
    changed(recorder)
    failed(recorder)
    return recorder.exchanges


def whole_course(recorder: Recorder) -> None:
    comparison = recorder.shop.create()
    path = f"/api/v1{PATH}"
    recorder.call("assigned", f"{path}/assigned", method="GET", keep=("id", "status", "case_count", "version"))
    claim = recorder.of(comparison, "claim", "claim")
    first = claim["cases"][0]
    recorder.call("embed", "/v1/embeddings", {"model": "stable", "input": first["query"], "input_type": "query"})
    token = claim["claim_token"]
    recorder.of(
        comparison, "progress", "progress",
        claim_token=token, current_completed_cases=1, candidate_completed_cases=0,
    )  # fmt: skip
    result = recorder.result(claim)
    recorder.of(
        comparison, "result", "result", **result,
        keep=(*SHORT, "production_promotion_performed", "consumer_revision_sha256", "evaluation_summary"),
    )  # fmt: skip
    recorder.of(comparison, "result_again", "result", **result, keep=SHORT)
    other = {**result, "consumer_revision_sha256": "0" * 64}
    recorder.of(comparison, "result_other", "result", **other)


def lost_claim_and_refusals(recorder: Recorder) -> None:
    comparison = recorder.shop.create(idempotency_key="faq-l6-l3-2026-12-02")
    claim = recorder.shop.consumer.post(f"{PATH}/{comparison['id']}/claim").json()
    recorder.of(comparison, "claim_again", "claim")
    counts = {"current_completed_cases": 2, "candidate_completed_cases": 0}
    recorder.shop.consumer.post(f"{PATH}/{comparison['id']}/progress", claim_token=claim["claim_token"], **counts)
    fallen = counts | {"current_completed_cases": 1}
    recorder.of(comparison, "counts_fell", "progress", claim_token=claim["claim_token"], **fallen)
    recorder.of(comparison, "wrong_token", "progress", claim_token="steelyard_claim_" + "x" * 43, **counts)
    other = recorder.shop.operator.make(
        f"/service-clients/{recorder.shop.things['other']['id']}/credentials", name="other"
    )["secret"]
    path = f"/api/v1{PATH}/{comparison['id']}/claim"
    recorder.call("not_known", path, secret=other)
    recorder.call("not_a_client", path, secret=recorder.shop.operator.secret)
    refused(recorder, comparison, claim)
    recorder.shop.consumer.post(f"{PATH}/{comparison['id']}/finish", claim_token=claim["claim_token"], outcome="failed")


def refused(recorder: Recorder, comparison: Any, claim: Any) -> None:
    """Send results that the hub does not take."""
    result = recorder.result(claim)
    requests = dict(result["candidate_gateway_requests"])
    first, second, third = requests
    requests[second] = recorder.shop.embed(["query: Where is my parcel?"], route="trial").headers["x-request-id"]
    requests[third] = requests[first]
    recorder.of(comparison, "evidence_refused", "result", **{**result, "candidate_gateway_requests": requests})
    shape = json.loads(json.dumps(result))
    shape["current"]["results"][0]["error_code"] = "TIMEOUT"
    recorder.of(comparison, "shape_refused", "result", **shape)
    recorder.of(comparison, "pins_mismatch", "result", **{**result, "pins_digest": "0" * 64})
    large = {**result, "current": {"results": [{"case_id": first, "latency_ms": 1, "ranked_results": "x" * 2**23}]}}
    recorder.of(comparison, "too_large", "result", **large)


def cancelled(recorder: Recorder) -> None:
    comparison = recorder.shop.create(idempotency_key="faq-l6-l3-2026-12-03")
    claim = recorder.shop.consumer.post(f"{PATH}/{comparison['id']}/claim").json()
    recorder.call(
        "cancel", f"/api/v1{PATH}/{comparison['id']}/cancel", {"expected_version": 2},
        secret=recorder.shop.operator.secret, keep=SHORT,
    )  # fmt: skip
    token = claim["claim_token"]
    recorder.of(
        comparison, "progress_cancelled", "progress",
        claim_token=token, current_completed_cases=1, candidate_completed_cases=0,
    )  # fmt: skip
    recorder.of(comparison, "result_cancelled", "result", **recorder.result(claim))
    recorder.of(comparison, "finish_cancelled", "finish", claim_token=token, outcome="cancelled", keep=SHORT)


def expired(recorder: Recorder) -> None:
    comparison = recorder.shop.create(idempotency_key="faq-l6-l3-2026-12-04")
    claim = recorder.shop.consumer.post(f"{PATH}/{comparison['id']}/claim").json()
    recorder.clock.wait(120)
    recorder.of(
        comparison, "expired", "progress",
        claim_token=claim["claim_token"], current_completed_cases=1, candidate_completed_cases=0,
    )  # fmt: skip
    recorder.call(
        "expired_seen", f"/api/v1{PATH}/{comparison['id']}", method="GET", secret=recorder.shop.operator.secret,
        keep=(*SHORT, "claim_expires_at"),
    )  # fmt: skip


def changed(recorder: Recorder) -> None:
    comparison = recorder.shop.create(idempotency_key="faq-l6-l3-2026-12-05")
    claim = recorder.shop.consumer.post(f"{PATH}/{comparison['id']}/claim").json()
    result = recorder.result(claim)
    recorder.change_route("deactivate", 1)
    recorder.of(comparison, "target_changed", "result", **result)
    recorder.change_route("activate", 2)


def failed(recorder: Recorder) -> None:
    comparison = recorder.shop.create(idempotency_key="faq-l6-l3-2026-12-06")
    claim = recorder.shop.consumer.post(f"{PATH}/{comparison['id']}/claim").json()
    token = claim["claim_token"]
    recorder.of(comparison, "cancel_not_asked", "finish", claim_token=token, outcome="cancelled")
    body = {"claim_token": token, "outcome": "failed", "error_code": "CONSUMER_STOPPED"}
    recorder.of(comparison, "finish_failed", "finish", **body, keep=SHORT)
    recorder.of(comparison, "finish_again", "finish", **body, keep=SHORT)
    recorder.of(comparison, "finish_other", "finish", **{**body, "error_code": "ANOTHER"})


# How an exchange is told. Of these requests the page shows the named fields; of others all.

SHOWN: Mapping[str, tuple[str, ...]] = {
    "result_again": ("claim_token",),
    "result_other": ("claim_token", "consumer_revision_sha256"),
    "evidence_refused": ("claim_token", "candidate_gateway_requests"),
    "shape_refused": ("claim_token", "current"),
    "pins_mismatch": ("claim_token", "pins_digest"),
    "too_large": ("claim_token",),
    "result_cancelled": ("claim_token",),
    "target_changed": ("claim_token",),
}


def texts() -> dict[str, str]:
    """Return every exchange as the page has it."""
    clock = Clock()
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteDatabases(Path(folder)).fresh() as url,
        closing(Database(url, clock=clock)) as database,
        serving_upstream() as upstream,
        shop(database, upstream) as served,
    ):
        exchanges = record(served, clock)
    names = Names()
    return {name: told(exchange, names, shown=SHOWN.get(name)) for name, exchange in exchanges.items()}


class Names:
    """Other ids for those that the hub made up, the same in every run; the cases' own stay."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._digest = ""

    def of(self, found: str) -> str:
        """Return what is shown for an id, in its own spelling."""
        bare = str(uuid.UUID(found))
        if bare in CASES:
            return found
        shown = self._shown.setdefault(bare, str(uuid.uuid5(uuid.NAMESPACE_URL, f"steelyard/{len(self._shown)}")))
        return shown if "-" in found else shown.replace("-", "")

    def in_text(self, text: str) -> str:
        """Return *text* with other ids, and without secrets."""
        return _ID.sub(lambda match: self.of(match[0]), _TOKEN.sub("steelyard_claim_…", text))

    def in_value(self, value: Any) -> Any:
        """Return *value* with other ids, and with the digest of pins that have them."""
        if isinstance(value, str):
            return self.in_text(value)
        if isinstance(value, list):
            return [self.in_value(item) for item in value]
        if not isinstance(value, dict):
            return value
        shown = {self.in_text(name): self.in_value(item) for name, item in value.items()}
        if "pins" in shown:
            self._digest = shown["pins_digest"] = sha256_of_json(shown["pins"])
        elif shown.get("pins_digest", "0" * 64) != "0" * 64:
            shown["pins_digest"] = self._digest
        if "seed" in shown:
            shown["seed"] = self._digest
        if set(shown) == {"gateway", "reported"}:
            shown["gateway"] = dict.fromkeys(shown["gateway"], LATENCY_MS)
        return shown


def told(exchange: Exchange, names: Names, *, shown: tuple[str, ...] | None) -> str:
    """Return an exchange as two blocks."""
    lines = [f"{exchange.method} {names.in_text(exchange.path)}", "Authorization: Bearer $STEELYARD_SECRET"]
    if exchange.body is not None:
        lines += ["Content-Type: application/json", "", written(names.in_value(part_of(exchange.body, shown)))]
    answer = exchange.answer
    content = names.in_value(exchange.content)
    status = f"HTTP/1.1 {answer.status_code} {phrase(answer.status_code)}"
    headers = [f"{name}: {names.in_text(answer.headers[name])}" for name in HEADERS if name in answer.headers]
    return (
        "```http\n"
        + "\n".join(lines)
        + "\n```\n```http\n"
        + "\n".join([status, *headers, "", written(content)])
        + ("\n```\n")
    )


def phrase(status: int) -> str:
    """Return a status in the words of RFC 9110."""
    return {413: "Content Too Large", 422: "Unprocessable Content"}.get(status, HTTPStatus(status).phrase)


def part_of(body: Any, shown: tuple[str, ...] | None) -> Any:
    """Return a request's body, or the fields of it that its answer is about."""
    return body if shown is None else {**{name: body[name] for name in shown}, "…": "…"}


def written(value: Any, *, indent: int = 0) -> str:
    """Return *value* as JSON, on one line where it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, list):
        items = [f"{inner}{written(item, indent=indent + 2)}" for item in value]
        return "[\n" + ",\n".join(items) + "\n" + " " * indent + "]"
    items = [
        f"{inner}{json.dumps(name, ensure_ascii=False)}: {written(item, indent=indent + 2)}"
        for name, item in value.items()
    ]
    return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"


def page_with(exchanges: Mapping[str, str]) -> str:
    """Return the page with these exchanges in their places."""
    page = PAGE.read_text(encoding="utf-8")
    return PART.sub(lambda match: f"{match[1]}{exchanges[match[2]]}{match[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(page_with(texts()), encoding="utf-8")

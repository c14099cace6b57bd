"""A world in which one comparison can be carried out: what there is, whom it is asked by, and what a consumer sends.

The rows of the gateway's log are written as the gateway writes them, so that a test needs no embedding server.
"""

from __future__ import annotations

import uuid
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.hub_api import CORPUS, Asked, Caller, fill, revision

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.db.database import Database
from steelyard.hub.gateway import store as log
from steelyard.hub.gateway.domain.entries import Ended, Started

if TYPE_CHECKING:
    from collections.abc import Mapping

    from httpx2 import Response


PATH = "/selected-model-comparisons"
REVISION = "cd" * 32
CAPABILITY = "rag.embedding@1"


@dataclass(frozen=True)
class Stage:
    """Everything that a comparison of one project needs, ready to be compared."""

    asked: Asked
    operator: Caller
    consumer: Caller
    ids: Mapping[str, str]
    cases: list[dict[str, Any]]
    settings_sha256: str

    @property
    def database(self) -> Database:
        return self.asked.database

    def asked_by(self, asked: Asked) -> Stage:
        """Return the same of a copy of the database, which *asked* asks."""
        operator, consumer = asked.holder(self.operator.secret), asked.holder(self.consumer.secret)
        return replace(self, asked=asked, operator=operator, consumer=consumer, cases=deepcopy(self.cases))

    def body(self, **fields: Any) -> dict[str, Any]:
        """Return a creation, with the last fields instead; its key is a new one."""
        names = (
            "project_binding_id", "consumer_client_id", "suite_revision_id", "current_deployment_id",
            "candidate_deployment_id", "candidate_route_id",
        )  # fmt: skip
        return {
            **{name: self.ids[name] for name in names},
            "corpus_sha256": CORPUS,
            "retrieval_config_sha256": self.settings_sha256,
            "current_index_ref": "index-current",
            "candidate_index_ref": "index-candidate",
            "idempotency_key": f"key-{uuid.uuid4()}",
            **fields,
        }

    def create(self, **fields: Any) -> Any:
        """Create an intent, and return it."""
        return self.operator.make(PATH, **self.body(**fields))

    def read(self, comparison: Any) -> Any:
        """Return a comparison as it is now."""
        answer = self.operator.get(f"{PATH}/{comparison['id']}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def call(self, comparison: Any, call: str, /, *, caller: Caller | None = None, **body: Any) -> Response:
        """Send one call of the consumer's, or another caller's."""
        return (caller or self.consumer).post(f"{PATH}/{comparison['id']}/{call}", **body)

    def claim(self, comparison: Any) -> Any:
        """Claim a comparison, and return the claim."""
        answer = self.call(comparison, "claim")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def claimed(self, **fields: Any) -> tuple[Any, Any]:
        """Create an intent and claim it; return both answers."""
        comparison = self.create(**fields)
        return comparison, self.claim(comparison)

    def started(self, leg: str, query: str, **fields: Any) -> Started:
        """Return the log's entry for a request that a consumer makes on *leg*, with the last fields instead."""
        route, deployment = {
            "current": ("stable_route_id", "current_deployment_id"),
            "candidate": ("candidate_route_id", "candidate_deployment_id"),
        }[leg]
        entry = Started(
            request_id=uuid.uuid4().hex,
            service_client_id=uuid.UUID(self.ids["consumer_client_id"]),
            credential_id=uuid.UUID(self.ids["credential_id"]),
            project_binding_id=uuid.UUID(self.ids["project_binding_id"]),
            route_id=uuid.UUID(self.ids[route]),
            deployment_id=uuid.UUID(self.ids[deployment]),
            capability=CAPABILITY,
            input_type="query",
            input_sha256=sha256_of_json([query]),
            input_count=1,
        )
        return replace(entry, **fields)

    def embed(self, leg: str, queries: list[str], **fields: Any) -> list[str]:
        """Log one completed request for each of *queries*, and return their public ids."""
        entries = [self.started(leg, query, **fields) for query in queries]
        log.commit(self.database, entries)
        log.commit(self.database, [Ended(entry.request_id, latency_ms=12.5, tokens=7) for entry in entries])
        return [entry.request_id for entry in entries]

    def evidence(self, leg: str) -> dict[str, str]:
        """Log a request for every case on *leg*, and return the mapping."""
        ids = self.embed(leg, [case["query"] for case in self.cases])
        return {case["case_id"]: request_id for case, request_id in zip(self.cases, ids, strict=True)}

    def result(self, claim: Any, **fields: Any) -> dict[str, Any]:
        """Return a result with evidence for every case, in which both legs find everything; with the last fields."""
        return {
            "claim_token": claim["claim_token"],
            "pins_digest": claim["comparison"]["pins_digest"],
            "consumer_revision_sha256": REVISION,
            "current": self.leg(),
            "candidate": self.leg(),
            "current_gateway_requests": self.evidence("current"),
            "candidate_gateway_requests": self.evidence("candidate"),
            **fields,
        }

    def leg(self, **by_case: Any) -> dict[str, Any]:
        """Return one leg's results; *by_case* has other fields for a case by its place, as `case_3={…}`."""
        return {
            "results": [
                {
                    "case_id": case["case_id"],
                    "ranked_results": [
                        {"chunk_id": chunk, "score": 1.0 - place / 10}
                        for place, chunk in enumerate(sorted(case["labels"], key=lambda chunk: -case["labels"][chunk]))
                    ],
                    "latency_ms": 20.0 + number,
                    **by_case.get(f"case_{number}", {}),
                }
                for number, case in enumerate(self.cases)
            ]
        }


def stage_at(url: str) -> Stage:
    """Make a project with everything that a comparison needs in the database at *url*, and close it."""
    database = Database(url)
    asked = Asked(database)
    stage = make_stage(asked)
    asked.close()
    database.close()
    return stage


def make_stage(asked: Asked, *, slug: str = "search", cases: int = 3, content: Any = None) -> Stage:
    """Make a project with everything that a comparison needs; *content* is the suite's, in place of so many cases."""
    operator = asked.caller("operator")
    made = fill(operator, slug)
    binding = operator.post(
        f"/project-bindings/{made.binding['id']}/current-deployment",
        deployment_id=made.production["id"], expected_version=1,
    ).json()  # fmt: skip
    route = operator.make("/routes", project_binding_id=binding["id"], slug="next", deployment_id=made.candidate["id"])
    [stable] = operator.get("/routes", project_binding_id=binding["id"], slug="stable").json()["items"]
    suite = operator.make("/suites", project_id=made.project["id"], slug="questions", name="Questions")
    content = content or revision(cases)
    imported = operator.make(f"/suites/{suite['id']}/revisions", **content)
    issued = operator.make(f"/service-clients/{made.client['id']}/credentials", name="c")
    return Stage(
        asked=asked,
        operator=operator,
        consumer=asked.holder(issued["secret"]),
        ids={
            "project_id": made.project["id"],
            "project_binding_id": binding["id"],
            "consumer_client_id": made.client["id"],
            "credential_id": issued["credential"]["id"],
            "suite_id": suite["id"],
            "suite_revision_id": imported["id"],
            "current_deployment_id": made.production["id"],
            "candidate_deployment_id": made.candidate["id"],
            "candidate_route_id": route["id"],
            "stable_route_id": stable["id"],
        },
        cases=content["cases"],
        settings_sha256=imported["retrieval_config_sha256"],
    )

"""No secret, no key, no text and no vector is kept, logged or answered, whatever is asked of a running hub.

One run does everything that a hub does, with every log at its most talkative, and then everything that is left of it is
searched: each file beside the database or each row in it, stdout and stderr, and every answer but the issuing ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.canaries import Canaries, kept
from tests.comparing import PATH, REVISION
from tests.gateway.upstreams import Handler, Upstream, answer_to, serving_upstream
from tests.hub_api import CORPUS, Caller, deploy, fill, revision
from tests.hub_process import STEELYARD, hub_environ
from tests.processes import WAIT_S, Log, started

from steelyard.hub.credentials.domain import new_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY_VARIABLE = "STEELYARD_UPSTREAM_CANARY"
VECTOR = [0.1234567890123, -0.9876543210987, 0.5555511111222, -0.3333377777888]
# The command with stdout and stderr in one stream, and every logger of every library at DEBUG.
_PROGRAM = """
import logging, os
os.dup2(2, 1)
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("sqlalchemy").setLevel(logging.DEBUG)
from steelyard.cli import main
main()
"""
TALKATIVE = [sys.executable, "-c", _PROGRAM, "hub", "serve"]


@dataclass
class Run:
    """One hub, what was told to it in confidence, and what it answered."""

    url: str
    log: Log
    database_url: str
    canaries: Canaries
    operator: Caller
    upstream: Upstream
    answers: list[httpx2.Response] = field(default_factory=list)

    def ask(self, secret: str | None, method: str, path: str, **fields: Any) -> httpx2.Response:
        """Send one request, and keep its answer for the search."""
        headers = {**({"Authorization": f"Bearer {secret}"} if secret else {}), **fields.pop("headers", {})}
        answer = self.operator.client.request(method, path, headers=headers, **fields)
        self.answers.append(answer)
        return answer

    def issue(self, what: str, path: str, **body: Any) -> Any:
        """Have a secret issued; of this answer only the status is looked at."""
        issued = self.operator.make(path, **body)
        self.canaries.add_secret(what, issued["secret"])
        return issued

    def leaks(self) -> list[str]:
        """Return every canary in everything that is left of the run."""
        found = self.canaries.found_in("the log", self.log.text)
        for answer in self.answers:
            where = f"the answer to {answer.request.method} {answer.request.url.path}"
            found += self.canaries.found_in(where, answer.content + repr(answer.headers.raw).encode())
        for where, data in kept(self.database_url):
            found += self.canaries.found_in(where, data)
        return sorted(set(found))


@pytest.fixture
def run(database_url) -> Iterator[Run]:
    canaries = Canaries()
    key = canaries.add("the embedding server's key", "sk-canary-0f9d2c7b5a")
    environ = {**hub_environ(database_url), KEY_VARIABLE: key}
    made = subprocess.run(
        [STEELYARD, "hub", "init"], env=environ, capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    secret = canaries.add_secret("the first operator's secret", made.stdout.strip())
    assert canaries.found_in("stderr of init", made.stderr) == []
    with serving_upstream() as upstream, started(TALKATIVE, environ) as (process, log):
        url = log.wait_for(r"Serving the hub on (http://127\.0\.0\.1:\d+)").group(1)
        with httpx2.Client(base_url=url, trust_env=False, timeout=WAIT_S) as client:
            yield Run(url, log, database_url, canaries, Caller(client, secret), upstream)
        process.terminate()
        assert process.wait(WAIT_S) == 0


def catalogue(run: Run) -> Any:
    """Fill the catalogue, with one deployment whose server wants a key."""
    made = fill(run.operator)
    runtime = run.operator.make(
        "/runtimes", project_id=made.project["id"], slug="keyed", kind="llama.cpp", base_url=run.upstream.url,
        key_variable=KEY_VARIABLE,
    )  # fmt: skip
    current = deploy(run.operator, made.artifact, runtime, made.identity, slug="keyed", stage="production")
    path = f"/api/v1/project-bindings/{made.binding['id']}/current-deployment"
    body = {"deployment_id": current["id"], "expected_version": 1}
    assert run.ask(run.operator.secret, "POST", path, json=body).status_code == 200
    return replace(made, production=current)


def use_credentials(run: Run, made: Any) -> str:
    """Issue, rotate, misuse and revoke secrets of every kind; return a client's that is live."""
    own = run.operator.secret
    viewer = run.issue("a viewer's secret", "/credentials", role="viewer", name="v")
    other = run.issue("a second operator's secret", "/credentials", role="operator", name="o")
    path = f"/service-clients/{made.client['id']}/credentials"
    first, second = (run.issue(f"a client's secret {name}", path, name=name) for name in ("one", "two"))
    assert run.ask(own, "POST", f"/api/v1{path}", json={"name": "three"}).status_code == 409
    for issued in (viewer, other, first):
        run.ask(issued["secret"], "GET", "/api/v1/projects")
        run.ask(own, "POST", f"/api/v1/credentials/{issued['credential']['id']}/revoke")
        assert run.ask(issued["secret"], "GET", "/api/v1/projects").status_code == 401
    guess = run.canaries.add_secret("a guessed secret", new_secret("operator").text)
    typo = run.canaries.add("a mistyped secret", own[:-1] + ("x" if own[-1] != "x" else "y"))
    for sent in (guess, typo):
        assert run.ask(sent, "GET", "/api/v1/projects").status_code == 401
    return str(second["secret"])


def put_secrets_in_wrong_places(run: Run, secret: str) -> None:
    """Do what callers do by mistake: a secret in a path, a query, a body's field, a name, a header, no HTTP at all."""
    own = run.operator.secret
    run.ask(own, "GET", f"/api/v1/projects/{secret}")
    run.ask(own, "GET", f"/{secret}")
    run.ask(own, "GET", "/api/v1/projects", params={"slug": secret, secret: "1"})
    run.ask(own, "GET", "/api/v1/audit-events", params={"actor": f"{secret} "})
    run.ask(own, "GET", f"/health?{secret}")
    for body in ({"slug": secret, "name": "A"}, {secret: secret}, [secret], secret, {"slug": "a", "name": [secret]}):
        assert run.ask(own, "POST", "/api/v1/projects", json=body).status_code == 422
    run.ask(own, "POST", "/api/v1/projects", content=f'{{"slug": "{secret}'.encode())
    run.ask(own, "POST", "/api/v1/projects", headers={"Content-Encoding": secret}, content=b"{}")
    run.ask(None, secret.upper(), "/api/v1/projects")
    run.ask(None, "GET", "/api/v1/projects", headers={"Authorization": f"Basic {secret}", "Cookie": secret})
    run.ask(own, "POST", "/v1/embeddings", json={"model": secret, "input": secret})


def embed(run: Run, secret: str) -> None:
    """Call the gateway, well and badly; its own answers hold vectors, and are not searched for those."""
    words = [
        run.canaries.add("an embedded text", "canary text zur Rückerstattung"),
        run.canaries.add("an embedded text", "second canary text 7c1e"),
    ]
    run.canaries.add_vector("a vector", VECTOR)
    run.upstream.reply = lambda handler, body: handler.json(_answer(body))
    own = {"Authorization": f"Bearer {secret}"}
    for given in (words[0], words):
        for encoding in ("float", "base64"):
            body = {"model": "stable", "input": given, "encoding_format": encoding}
            answer = run.operator.client.post("/v1/embeddings", json=body, headers=own)
            assert answer.status_code == 200, answer.text
    assert run.upstream.headers[-1]["authorization"].endswith("sk-canary-0f9d2c7b5a")
    for reply in BAD_REPLIES:
        run.upstream.reply = reply
        answer = run.ask(secret, "POST", "/v1/embeddings", json={"model": "stable", "input": words})
        assert answer.status_code >= 400
    run.ask(secret, "POST", "/v1/embeddings", json={"model": "nothing", "input": words})
    run.ask(secret, "POST", "/v1/embeddings", json={"model": "stable", "input": [words, words]})
    run.ask(secret, "GET", "/v1/models")


def _answer(body: dict[str, Any]) -> dict[str, Any]:
    from base64 import b64encode  # noqa: PLC0415
    from struct import pack  # noqa: PLC0415

    is_base64 = body.get("encoding_format") == "base64"
    vector: Any = b64encode(pack("<4f", *VECTOR)).decode() if is_base64 else VECTOR
    data = [{"object": "embedding", "index": place, "embedding": vector} for place, _ in enumerate(body["input"])]
    return answer_to(body, data=data)


def _quoting(status: int) -> Callable[[Handler, dict[str, Any]], None]:
    """Return a server that fails with the text, its key and a vector in its words."""

    def reply(handler: Handler, body: dict[str, Any]) -> None:
        words = f"cannot embed {body['input']} for {handler.headers['Authorization']}: {VECTOR}"
        handler.json({"error": {"message": words}}, status=status)

    return reply


BAD_REPLIES: list[Callable[[Handler, dict[str, Any]], None]] = [
    *(_quoting(status) for status in (400, 401, 413, 422, 429, 500, 503)),
    lambda handler, body: handler.json({"data": VECTOR, "echo": body}),
    lambda handler, body: handler.json({**_answer(body), "data": [{"index": 0, "embedding": [*VECTOR, 1.0]}]}),
    lambda handler, body: handler.bytes(json.dumps(body).encode()[:-5]),
    lambda handler, _body: handler.drop(),
]


def compare(run: Run, made: Any, secret: str) -> None:
    """Carry comparisons out, well and badly; of the claims' answers only the status is looked at."""
    body = comparison_of(run, made)
    for end in ("failed", "result"):
        comparison = run.ask(
            run.operator.secret, "POST", f"/api/v1{PATH}", json=body | {"idempotency_key": end * 2}
        ).json()
        path = f"/api/v1{PATH}/{comparison['id']}"
        run.ask(secret, "POST", f"{path}/claim", json={"claim_token": "none yet"})
        claimed = run.operator.client.post(f"{path}/claim", headers={"Authorization": f"Bearer {secret}"})
        assert (claimed.status_code, claimed.headers["cache-control"]) == (200, "no-store")
        claim = claimed.json()
        token = run.canaries.add("a claim token", claim["claim_token"])
        run.canaries.add("a claim token", token.removeprefix("steelyard_claim_"))
        misuse_token(run, path, token, secret)
        counts = {"current_completed_cases": 1, "candidate_completed_cases": 1}
        beat = run.ask(secret, "POST", f"{path}/progress", json={"claim_token": token, **counts})
        assert beat.status_code == 200
        if end == "failed":
            closing, call = {"claim_token": token, "outcome": "failed", "error_code": "OOM"}, "finish"
        else:
            closing, call = result_of(run, claim, secret), "result"
        for _ in range(2):
            closed = run.ask(secret, "POST", f"{path}/{call}", json=closing)
            assert closed.status_code == 200, closed.text
        misuse_token(run, path, token, secret)
        for below in ("", "/cases"):
            assert run.ask(run.operator.secret, "GET", path + below).status_code == 200
    assert run.ask(secret, "GET", f"/api/v1{PATH}/assigned").json()["items"] == []


def comparison_of(run: Run, made: Any) -> dict[str, Any]:
    """Return a creation without its key, with everything that it needs made."""
    keyed = {"id": made.production["runtime_id"]}
    candidate = deploy(run.operator, made.artifact, keyed, made.identity, slug="next", stage="nonproduction")
    route = run.operator.make(
        "/routes", project_binding_id=made.binding["id"], slug="next", deployment_id=candidate["id"]
    )
    suite = run.operator.make("/suites", project_id=made.project["id"], slug="compared", name="Compared")
    imported = run.operator.make(f"/suites/{suite['id']}/revisions", **revision(2))
    return {
        "project_binding_id": made.binding["id"],
        "consumer_client_id": made.client["id"],
        "suite_revision_id": imported["id"],
        "current_deployment_id": made.production["id"],
        "candidate_deployment_id": candidate["id"],
        "candidate_route_id": route["id"],
        "corpus_sha256": CORPUS,
        "retrieval_config_sha256": imported["retrieval_config_sha256"],
        "current_index_ref": "old",
        "candidate_index_ref": "new",
    }


def misuse_token(run: Run, path: str, token: str, secret: str) -> None:
    """Put a claim's token everywhere that it does not belong, and send it with what is refused for another reason."""
    own = run.operator.secret
    for caller in (secret, own, token, None):
        run.ask(caller, "GET", f"/api/v1{PATH}/{token}")
        run.ask(caller, "POST", f"{path}/{token}", json={})
        run.ask(caller, "GET", f"/api/v1{PATH}", params={"project_binding_id": token, token: "1"})
        run.ask(caller, "GET", f"/api/v1{PATH}/assigned", params={"limit": token})
        for call in ("claim", "progress", "result", "finish", "cancel"):
            for body in ({"claim_token": [token]}, {"claim_token": token}, {token: token}, [token], token):
                assert run.ask(caller, "POST", f"{path}/{call}", json=body).status_code >= 400
            run.ask(caller, "POST", f"{path}/{call}", content=f'{{"claim_token": "{token}'.encode())
    run.ask(own, "POST", f"/api/v1{PATH}", json={"idempotency_key": token, "current_index_ref": f"{token}\x00"})
    odd_ends = ({"outcome": token}, {"outcome": "cancelled"}, {"outcome": "failed", "error_code": token})
    for end in odd_ends:
        assert run.ask(secret, "POST", f"{path}/finish", json={"claim_token": token, **end}).status_code >= 400
    counts = {"current_completed_cases": 99, "candidate_completed_cases": 0}
    assert run.ask(secret, "POST", f"{path}/progress", json={"claim_token": token, **counts}).status_code >= 400
    wrong = {
        "claim_token": token, "pins_digest": "ab" * 32, "consumer_revision_sha256": REVISION,
        "current": {"results": []}, "candidate": {"results": []},
        "current_gateway_requests": {}, "candidate_gateway_requests": {},
    }  # fmt: skip
    assert run.ask(secret, "POST", f"{path}/result", json=wrong).status_code >= 400


def result_of(run: Run, claim: Any, secret: str) -> dict[str, Any]:
    """Embed every case on both legs, and return the result; the answers hold vectors."""
    run.upstream.reply = lambda handler, body: handler.json(_answer(body))

    def embed_on(model: str, query: str) -> str:
        body = {"model": model, "input": query}
        answer = run.operator.client.post("/v1/embeddings", json=body, headers={"Authorization": f"Bearer {secret}"})
        assert answer.status_code == 200, answer.text
        return answer.headers["x-request-id"]

    leg = {"results": [
        {"case_id": case["case_id"], "ranked_results": [{"chunk_id": "chunk-1", "score": 1}], "latency_ms": 1}
        for case in claim["cases"]
    ]}  # fmt: skip
    mappings = {
        name: {case["case_id"]: embed_on(model, case["query"]) for case in claim["cases"]}
        for name, model in (("current_gateway_requests", "stable"), ("candidate_gateway_requests", "next"))
    }
    return {
        "claim_token": claim["claim_token"],
        "pins_digest": claim["comparison"]["pins_digest"],
        "consumer_revision_sha256": REVISION,
        "current": leg,
        "candidate": leg,
        **mappings,
    }


def read_everything(run: Run, made: Any) -> None:
    """Read every list and every thing."""
    own = run.operator.secret
    document = run.ask(own, "GET", "/openapi.json").json()
    for path, item in document["paths"].items():
        if "get" in item and "{" not in path:
            assert run.ask(own, "GET", path).status_code in (200, 403)
    for event in run.ask(own, "GET", "/api/v1/audit-events", params={"limit": 100}).json()["items"]:
        assert "secret" not in json.dumps(event)
    run.ask(own, "GET", f"/api/v1/service-clients/{made.client['id']}")


def test_nothing_secret_is_kept_logged_or_answered(run):
    made = catalogue(run)
    secret = use_credentials(run, made)
    put_secrets_in_wrong_places(run, secret)
    embed(run, secret)
    compare(run, made, secret)
    suite = run.operator.make("/suites", project_id=made.project["id"], slug="faq", name="FAQ")
    run.ask(run.operator.secret, "POST", f"/api/v1/suites/{suite['id']}/revisions", json=revision(3))
    read_everything(run, made)
    assert len(run.answers) > 60
    for logger in ("DEBUG:sqlalchemy.engine", "DEBUG:httpcore2", "INFO:steelyard.web"):
        assert logger in run.log.text, "the log was not at its most talkative"
    assert run.leaks() == []


def test_the_search_finds_what_is_there(run):
    """A search that finds nothing proves nothing unless it would find something."""
    run.canaries.add("a project's name", "Zebra crossing")
    run.operator.make("/projects", slug="z", name="Zebra crossing")
    run.ask(run.operator.secret, "GET", "/api/v1/projects")
    found = run.leaks()
    assert "a project's name in the answer to GET /api/v1/projects" in found
    assert any(leak.startswith("a project's name in") and "answer" not in leak for leak in found)
    noted = Canaries()
    noted.add_secret("s", new_secret("client").text)
    noted.add_vector("v", VECTOR)
    for data in (json.dumps(VECTOR), repr(VECTOR[2])):
        assert noted.found_in("x", data) == ["v in x"]

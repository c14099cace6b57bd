"""What the commands over HTTP can name and do: one table, from which every command follows.

Schemas are named as texts, so that showing a command's help needs no extra.
"""

from __future__ import annotations

from dataclasses import dataclass

_CATALOG = "steelyard.hub.catalog.schemas"
_CREDENTIALS = "steelyard.hub.credentials.schemas"
_SUITES = "steelyard.hub.suites.schemas"
_COMPARISONS = "steelyard.hub.comparisons.schemas"
_EXPECTED = "steelyard.hub.rest.fields:Expected"


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A change to one thing: *suffix* follows its path, *schema* is the body's, None for none."""

    name: str
    summary: str
    suffix: str
    schema: str | None = _EXPECTED
    shows_secret: bool = False


@dataclass(frozen=True, kw_only=True)
class Noun:
    """A kind of thing: *collection* is its path, *named_by* names one beside its id, *columns* are a list's.

    *lines* are what `show` prints of a thing that has more than a screen takes; a dot leads into a thing inside.
    """

    name: str
    singular: str
    summary: str
    collection: str
    columns: tuple[str, ...]
    query: str
    new: str | None = None
    create: str = "create"
    shows_secret: bool = False
    named_by: str | None = "slug"
    is_shown: bool = True
    is_owned: bool = True
    verbs: tuple[Verb, ...] = ()
    plural: str | None = None
    lines: tuple[str, ...] = ()


_ACTIVATE = Verb(name="activate", summary="Let it carry traffic again.", suffix="activate")
_DEACTIVATE = Verb(name="deactivate", summary="Stop its traffic.", suffix="deactivate")

NOUNS = (
    Noun(
        name="projects", singular="project", summary="Projects, which own everything else.", collection="projects",
        columns=("id", "slug", "name"), query=f"{_CATALOG}:ProjectQuery", new=f"{_CATALOG}:NewProject", is_owned=False,
    ),
    Noun(
        name="bindings", singular="binding", summary="A project's use of a capability, and where it points.",
        collection="project-bindings", named_by="capability",
        columns=("id", "capability", "is_active", "current_deployment_id", "version"),
        query=f"{_CATALOG}:BindingQuery", new=f"{_CATALOG}:NewProjectBinding",
        verbs=(
            Verb(name="set-current", summary="Point a binding at another production deployment.",
                 suffix="current-deployment", schema=f"{_CATALOG}:SetCurrent"),
            _ACTIVATE, _DEACTIVATE,
        ),
    ),
    Noun(
        name="clients", singular="client", summary="Programs that call the gateway.", collection="service-clients",
        columns=("id", "slug", "name", "is_active", "version"), query=f"{_CATALOG}:ClientQuery",
        new=f"{_CATALOG}:NewServiceClient",
        verbs=(
            Verb(name="revoke", summary="End a client for good.", suffix="revoke"),
            Verb(name="issue-secret", summary="Issue a client's next secret, shown once.", suffix="credentials",
                 schema=f"{_CREDENTIALS}:NewClientCredential", shows_secret=True),
        ),
    ),
    Noun(
        name="artifacts", singular="artifact", summary="Model weights.", collection="artifacts",
        columns=("id", "slug", "source", "revision"), query=f"{_CATALOG}:OwnedQuery", new=f"{_CATALOG}:NewArtifact",
    ),
    Noun(
        name="runtimes", singular="runtime", summary="Servers that run embedding models.", collection="runtimes",
        columns=("id", "slug", "kind", "base_url"), query=f"{_CATALOG}:OwnedQuery", new=f"{_CATALOG}:NewRuntime",
    ),
    Noun(
        name="identities", singular="identity", summary="What makes two vectors comparable.",
        collection="embedding-identities", columns=("id", "slug", "model", "dimension", "pooling", "max_length"),
        query=f"{_CATALOG}:OwnedQuery", new=f"{_CATALOG}:NewEmbeddingIdentity",
    ),
    Noun(
        name="deployments", singular="deployment", summary="An artifact on a runtime under an identity.",
        collection="deployments", columns=("id", "slug", "stage", "is_active", "version"),
        query=f"{_CATALOG}:DeploymentQuery", new=f"{_CATALOG}:NewDeployment",
        verbs=(
            Verb(name="retire", summary="End a deployment for good.", suffix="retire"),
            Verb(name="set-stage", summary="Move it between production and nonproduction.", suffix="stage",
                 schema=f"{_CATALOG}:SetStage"),
        ),
    ),
    Noun(
        name="routes", singular="route", summary="How traffic reaches a deployment.", collection="routes",
        columns=("id", "slug", "kind", "is_active", "version"), query=f"{_CATALOG}:RouteQuery",
        new=f"{_CATALOG}:NewRoute", verbs=(_ACTIVATE, _DEACTIVATE),
    ),
    Noun(
        name="suites", singular="suite", summary="Reviewed questions, in immutable revisions.", collection="suites",
        columns=("id", "slug", "name"), query=f"{_SUITES}:SuiteQuery", new=f"{_SUITES}:NewSuite",
    ),
    Noun(
        name="comparisons", singular="comparison", summary="A current deployment against a candidate, on a suite.",
        collection="selected-model-comparisons", named_by=None, is_owned=False,
        columns=("id", "status", "created_at", "evaluation_summary.eligibility",
                 "evaluation_summary.critical_regression_count", "error_code"),
        lines=("id", "status", "version", "error_code", "evaluation_summary.eligibility",
               "evaluation_summary.critical_regression_count", "case_count", "current_completed_cases",
               "candidate_completed_cases", "created_at", "claimed_at", "claim_expires_at", "ended_at",
               "pins.current.deployment.slug", "pins.candidate.deployment.slug", "pins.candidate.route.slug",
               "current_index_ref", "candidate_index_ref", "pins.suite.slug", "pins.suite.number",
               "consumer_client_id", "idempotency_key", "pins_digest"),
        query=f"{_COMPARISONS}:HistoryQuery",
        verbs=(
            Verb(name="cancel", suffix="cancel",
                 summary="Cancel a comparison. A pending one ends at once; a running one is cancel_requested until its "
                 "consumer acknowledges or its claim expires, and no result of it is taken from now on. `show` tells "
                 "the version, which progress does not change."),
        ),
    ),
    Noun(
        name="credentials", singular="credential", summary="Who may call the hub.", collection="credentials",
        columns=("id", "public_id", "role", "name", "revoked_at"), query=f"{_CREDENTIALS}:CredentialQuery",
        new=f"{_CREDENTIALS}:NewCredential", create="issue", shows_secret=True, named_by="public_id", is_owned=False,
        verbs=(Verb(name="revoke", summary="End a credential for good.", suffix="revoke", schema=None),),
    ),
    Noun(
        name="audit", plural="audit events", singular="audit event", summary="Who did what to what.",
        collection="audit-events", columns=("id", "at", "actor", "action", "subject_id"),
        query="steelyard.hub.audit.api:AuditQuery", named_by=None, is_shown=False, is_owned=False,
    ),
    Noun(
        name="requests", singular="request", summary="What went through the gateway.", collection="gateway-requests",
        columns=("request_id", "started_at", "status", "input_count", "tokens", "latency_ms", "error_code"),
        query="steelyard.hub.gateway.log_api:LogQuery", named_by=None, is_shown=False, is_owned=False,
    ),
)  # fmt: skip
BY_NAME = {noun.name: noun for noun in NOUNS}

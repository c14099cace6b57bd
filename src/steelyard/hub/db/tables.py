"""Every table of the hub, as the newest migration leaves them.

Text that has a digest is stored as TEXT, never as JSON: PostgreSQL's JSONB rewrites numbers and would change it.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

from steelyard.hub.db.types import JsonText, RowId, UtcTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# The store's own books: which migrations made the schema, and which life of the data this is.

store_lineage = Table(
    "store_lineage",
    metadata,
    Column("revision", String(32), primary_key=True),
    Column("lineage_id", String(64), nullable=False),
    Column("file_sha256", String(64), nullable=False),  # Of the migration's file as it was when it ran.
    Column("schema_sha256", String(64), nullable=False),  # The schema's fingerprint after it ran.
    Column("applied_at", UtcTime, nullable=False),
)

store_epochs = Table(
    "store_epochs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("epoch_id", Uuid, nullable=False, unique=True),
    Column("cause", String(16), nullable=False),
    Column("began_at", UtcTime, nullable=False),
    # Where the data lives: PostgreSQL's own names for its cluster, its history and this table. SQLite has none.
    Column("place", Text, nullable=True),
    # Counted up at every start and stop, beside the same number in a SQLite database's sidecar.
    Column("beat", Integer, nullable=False),
    CheckConstraint("cause IN ('created', 'restored')", name="cause"),
)

# Only backups have a row here: who starts a hub on one learns by it that the data was restored.
store_marks = Table(
    "store_marks",
    metadata,
    Column("backup_id", Uuid, primary_key=True),
    Column("taken_at", UtcTime, nullable=False),
    Column("epoch_id", Uuid, nullable=False),
)

SLUG_LENGTH = 64
SHA256_LENGTH = 64

projects = Table(
    "projects",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("slug", String(SLUG_LENGTH), nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

project_bindings = Table(
    "project_bindings",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("capability", String(64), nullable=False),
    Column("channel", String(16), nullable=False),
    Column("is_active", Boolean, nullable=False),
    # A deployment belongs to the same project; the service keeps this, since the two tables point at each other.
    Column("current_deployment_id", Uuid, ForeignKey("deployments.id"), nullable=True),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "capability", "channel"),
)

service_clients = Table(
    "service_clients",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("project_binding_id", Uuid, ForeignKey("project_bindings.id"), nullable=False, index=True),
    Column("slug", String(SLUG_LENGTH), nullable=False),
    Column("name", Text, nullable=False),
    Column("capabilities", JsonText, nullable=False),  # An array of names.
    Column("is_active", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "slug"),
)

credentials = Table(
    "credentials",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("public_id", String(16), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("service_client_id", Uuid, ForeignKey("service_clients.id"), nullable=True, index=True),
    Column("secret_sha256", String(SHA256_LENGTH), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("revoked_at", UtcTime, nullable=True),
    CheckConstraint("role IN ('viewer', 'operator', 'client')", name="role"),
    CheckConstraint("(role = 'client') = (service_client_id IS NOT NULL)", name="client"),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("slug", String(SLUG_LENGTH), nullable=False),
    Column("source", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("files", JsonText, nullable=False),  # An object {file name: SHA-256}.
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "slug"),
)

runtimes = Table(
    "runtimes",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("slug", String(SLUG_LENGTH), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("base_url", Text, nullable=False),
    # What the runtime makes of an input over its model's length: refuses, reports or truncates.
    Column("on_overlong", String(16), nullable=False),
    # The name of the environment variable that holds the runtime's own key; the key itself is never stored.
    Column("key_variable", String(128), nullable=True),
    Column("timeout_s", Float, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "slug"),
)

embedding_identities = Table(
    "embedding_identities",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("slug", String(SLUG_LENGTH), nullable=False),
    Column("model", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("pooling", String(16), nullable=False),
    Column("is_normalized", Boolean, nullable=False),
    Column("query_prompt", Text, nullable=False),
    Column("document_prompt", Text, nullable=False),
    Column("max_length", Integer, nullable=False),
    Column("dtype", String(16), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "slug"),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("slug", String(SLUG_LENGTH), nullable=False),
    Column("capability", String(64), nullable=False),
    Column("artifact_id", Uuid, ForeignKey("artifacts.id"), nullable=False),
    Column("runtime_id", Uuid, ForeignKey("runtimes.id"), nullable=False),
    Column("embedding_identity_id", Uuid, ForeignKey("embedding_identities.id"), nullable=False),
    Column("served_model", Text, nullable=False),  # What the runtime calls the model.
    Column("stage", String(16), nullable=False),
    Column("allows_truncation", Boolean, nullable=False),
    Column("is_active", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "slug"),
    CheckConstraint("stage IN ('production', 'nonproduction')", name="stage"),
)

routes = Table(
    "routes",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_binding_id", Uuid, ForeignKey("project_bindings.id"), nullable=False),
    Column("slug", String(SLUG_LENGTH), nullable=False),
    Column("kind", String(16), nullable=False),
    # The stable route has none: it leads wherever its binding points.
    Column("deployment_id", Uuid, ForeignKey("deployments.id"), nullable=True),
    Column("is_active", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_binding_id", "slug"),
    CheckConstraint("kind IN ('stable', 'experiment')", name="kind"),
    CheckConstraint("(kind = 'stable') = (deployment_id IS NULL)", name="deployment"),
    CheckConstraint("(kind = 'stable') = (slug = 'stable')", name="slug"),
)

suites = Table(
    "suites",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("slug", String(SLUG_LENGTH), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("project_id", "slug"),
)

suite_revisions = Table(
    "suite_revisions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("suite_id", Uuid, ForeignKey("suites.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", String(SHA256_LENGTH), nullable=False),
    Column("retrieval_settings", JsonText, nullable=False),
    Column("retrieval_config_sha256", String(SHA256_LENGTH), nullable=False),
    Column("case_count", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("suite_id", "number"),
    UniqueConstraint("suite_id", "digest"),
)

suite_cases = Table(
    "suite_cases",
    metadata,
    Column("suite_revision_id", Uuid, ForeignKey("suite_revisions.id"), primary_key=True),
    Column("case_id", Uuid, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("query", Text, nullable=False),
    Column("labels", JsonText, nullable=False),  # An object {chunk id: grade}.
    Column("is_critical", Boolean, nullable=False),
    Column("reviewer", Text, nullable=False),
    Column("reviewed_at", UtcTime, nullable=False),
    Column("label_provenance", JsonText, nullable=False),
    UniqueConstraint("suite_revision_id", "position"),
)

gateway_requests = Table(
    "gateway_requests",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("request_id", String(32), nullable=False, unique=True),  # The public id, as in the x-request-id header.
    Column("service_client_id", Uuid, ForeignKey("service_clients.id"), nullable=False),
    Column("credential_id", Uuid, ForeignKey("credentials.id"), nullable=False),
    Column("project_binding_id", Uuid, ForeignKey("project_bindings.id"), nullable=False),
    Column("route_id", Uuid, ForeignKey("routes.id"), nullable=False),
    Column("deployment_id", Uuid, ForeignKey("deployments.id"), nullable=False),
    Column("capability", String(64), nullable=False),
    Column("input_type", String(16), nullable=False),
    Column("input_sha256", String(SHA256_LENGTH), nullable=False),
    Column("input_count", Integer, nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("completed_at", UtcTime, nullable=True),
    Column("status", String(16), nullable=False),
    Column("latency_ms", Float, nullable=True),
    Column("tokens", Integer, nullable=True),
    Column("is_truncated", Boolean, nullable=True),
    Column("error_code", String(64), nullable=True),
    CheckConstraint("status IN ('started', 'completed', 'failed')", name="status"),
    CheckConstraint("(status = 'started') = (completed_at IS NULL)", name="completed_at"),
    CheckConstraint("(status = 'failed') = (error_code IS NOT NULL)", name="error_code"),
    Index(None, "started_at"),
    Index(None, "service_client_id", "id"),
    Index(None, "project_binding_id", "id"),
    sqlite_autoincrement=True,
)

comparisons = Table(
    "comparisons",
    metadata,
    Column("number", RowId, primary_key=True, autoincrement=True),  # The order in which they were made.
    Column("id", Uuid, nullable=False, unique=True),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("capability", String(64), nullable=False),
    Column("project_binding_id", Uuid, ForeignKey("project_bindings.id"), nullable=False),
    Column("consumer_client_id", Uuid, ForeignKey("service_clients.id"), nullable=False),
    Column("suite_revision_id", Uuid, ForeignKey("suite_revisions.id"), nullable=False),
    Column("current_deployment_id", Uuid, ForeignKey("deployments.id"), nullable=False),
    Column("candidate_deployment_id", Uuid, ForeignKey("deployments.id"), nullable=False),
    Column("candidate_route_id", Uuid, ForeignKey("routes.id"), nullable=False),
    Column("corpus_sha256", String(SHA256_LENGTH), nullable=False),
    Column("retrieval_config_sha256", String(SHA256_LENGTH), nullable=False),
    Column("current_index_ref", Text, nullable=False),
    Column("candidate_index_ref", Text, nullable=False),
    Column("idempotency_key", String(128), nullable=False),
    Column("input_sha256", String(SHA256_LENGTH), nullable=False),  # Of the creation, without its key.
    Column("pins", JsonText, nullable=False),
    Column("pins_digest", String(SHA256_LENGTH), nullable=False),
    Column("rule", JsonText, nullable=False),  # By which eligibility will be decided, as set when it was made.
    Column("case_count", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("claim_token_sha256", String(SHA256_LENGTH), nullable=True),
    Column("claimed_at", UtcTime, nullable=True),
    Column("lease_expires_at", UtcTime, nullable=True),
    Column("deadline_at", UtcTime, nullable=True),
    Column("current_completed_cases", Integer, nullable=False),
    Column("candidate_completed_cases", Integer, nullable=False),
    Column("cancelled_version", Integer, nullable=True),  # The version at which a cancel was accepted.
    Column("closing_sha256", String(SHA256_LENGTH), nullable=True),  # Of the consumer's call that ended it.
    Column("consumer_revision_sha256", String(SHA256_LENGTH), nullable=True),
    Column("ended_at", UtcTime, nullable=True),
    Column("error_code", String(64), nullable=True),
    UniqueConstraint("project_binding_id", "idempotency_key"),
    CheckConstraint(
        "status IN ('pending', 'running', 'cancel_requested', 'completed', 'failed', 'cancelled', 'interrupted')",
        name="status",
    ),
    CheckConstraint(
        "(status IN ('pending', 'running', 'cancel_requested')) = (ended_at IS NULL)",
        name="ended_at",
    ),
    CheckConstraint(
        "status NOT IN ('running', 'cancel_requested') OR claim_token_sha256 IS NOT NULL",
        name="claim_token",
    ),
    CheckConstraint("(claimed_at IS NULL) = (lease_expires_at IS NULL)", name="lease"),
    CheckConstraint("(claimed_at IS NULL) = (deadline_at IS NULL)", name="deadline"),
    CheckConstraint("(status = 'completed') = (consumer_revision_sha256 IS NOT NULL)", name="result"),
    Index(None, "project_binding_id", "number"),
    Index(
        "uq_comparisons_active",
        "project_binding_id",
        unique=True,
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    # All that can expire: at most one row for each binding.
    Index(
        "ix_comparisons_active",
        "lease_expires_at",
        sqlite_where=text("ended_at IS NULL"),
        postgresql_where=text("ended_at IS NULL"),
    ),
    sqlite_autoincrement=True,
)

# What a comparison was published with. These rows are written once, together, and never changed.

evaluation_runs = Table(
    "evaluation_runs",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("comparison_id", Uuid, ForeignKey("comparisons.id"), nullable=False),
    Column("leg", String(16), nullable=False),
    Column("deployment_id", Uuid, ForeignKey("deployments.id"), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("comparison_id", "leg"),
    CheckConstraint("leg IN ('current', 'candidate')", name="leg"),
)

evaluation_results = Table(
    "evaluation_results",
    metadata,
    Column("evaluation_run_id", Uuid, ForeignKey("evaluation_runs.id"), primary_key=True),
    Column("case_id", Uuid, primary_key=True),
    Column("answer", JsonText, nullable=False),  # In the capability's form.
    Column("latency_ms", Float, nullable=False),
    Column("error_code", String(64), nullable=True),
    Column("metrics", JsonText, nullable=False),  # An object {metric: value}.
)

evaluation_evidence = Table(
    "evaluation_evidence",
    metadata,
    # A request is evidence for one case of one leg of one comparison, ever.
    Column("gateway_request_id", RowId, ForeignKey("gateway_requests.id"), primary_key=True, autoincrement=False),
    Column("evaluation_run_id", Uuid, nullable=False),
    Column("case_id", Uuid, nullable=False),
    ForeignKeyConstraint(
        ["evaluation_run_id", "case_id"], ["evaluation_results.evaluation_run_id", "evaluation_results.case_id"]
    ),
    UniqueConstraint("evaluation_run_id", "case_id"),
)

evaluation_summaries = Table(
    "evaluation_summaries",
    metadata,
    Column("comparison_id", Uuid, ForeignKey("comparisons.id"), primary_key=True),
    Column("metrics_version", String(64), nullable=False),
    Column("summary", JsonText, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

audit_events = Table(
    "audit_events",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("at", UtcTime, nullable=False),
    Column("actor_role", String(16), nullable=False),
    Column("actor", String(64), nullable=False),  # A credential's public id, or `local` for the command line.
    Column("action", String(64), nullable=False),
    Column("subject_kind", String(32), nullable=False),
    Column("subject_id", String(64), nullable=False),
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=True),
    Column("before", JsonText, nullable=True),  # Objects of whitelisted fields.
    Column("after", JsonText, nullable=True),
    Column("request_id", String(32), nullable=True),
    Index(None, "project_id", "id"),
    Index(None, "subject_kind", "subject_id"),
    sqlite_autoincrement=True,
)

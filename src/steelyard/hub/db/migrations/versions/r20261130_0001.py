"""The hub's first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""

    op.create_table(
        "projects",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("slug", name=op.f("uq_projects_slug")),
    )
    op.create_table(
        "store_epochs",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch_id", sa.Uuid(), nullable=False),
        sa.Column("cause", sa.String(length=16), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("place", sa.Text(), nullable=True),
        sa.Column("beat", sa.Integer(), nullable=False),
        sa.CheckConstraint("cause IN ('created', 'restored')", name=op.f("ck_store_epochs_cause")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_store_epochs")),
        sa.UniqueConstraint("epoch_id", name=op.f("uq_store_epochs_epoch_id")),
    )
    op.create_table(
        "store_lineage",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("lineage_id", sa.String(length=64), nullable=False),
        sa.Column("file_sha256", sa.String(length=64), nullable=False),
        sa.Column("schema_sha256", sa.String(length=64), nullable=False),
        sa.Column("applied_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("pk_store_lineage")),
    )
    op.create_table(
        "store_marks",
        sa.Column("backup_id", sa.Uuid(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("epoch_id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("backup_id", name=op.f("pk_store_marks")),
    )
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_artifacts_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_artifacts")),
        sa.UniqueConstraint("project_id", "slug", name=op.f("uq_artifacts_project_id_slug")),
    )
    op.create_table(
        "audit_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor_role", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject_kind", sa.String(length=32), nullable=False),
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=True),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("request_id", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_audit_events_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_events")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_audit_events_project_id_id"), "audit_events", ["project_id", "id"], unique=False)
    op.create_index(
        op.f("ix_audit_events_subject_kind_subject_id"), "audit_events", ["subject_kind", "subject_id"], unique=False
    )
    op.create_table(
        "embedding_identities",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("pooling", sa.String(length=16), nullable=False),
        sa.Column("is_normalized", sa.Boolean(), nullable=False),
        sa.Column("query_prompt", sa.Text(), nullable=False),
        sa.Column("document_prompt", sa.Text(), nullable=False),
        sa.Column("max_length", sa.Integer(), nullable=False),
        sa.Column("dtype", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_embedding_identities_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_embedding_identities")),
        sa.UniqueConstraint("project_id", "slug", name=op.f("uq_embedding_identities_project_id_slug")),
    )
    op.create_table(
        "runtimes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("on_overlong", sa.String(length=16), nullable=False),
        sa.Column("key_variable", sa.String(length=128), nullable=True),
        sa.Column("timeout_s", sa.Float(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_runtimes_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runtimes")),
        sa.UniqueConstraint("project_id", "slug", name=op.f("uq_runtimes_project_id_slug")),
    )
    op.create_table(
        "suites",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_suites_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suites")),
        sa.UniqueConstraint("project_id", "slug", name=op.f("uq_suites_project_id_slug")),
    )
    op.create_table(
        "deployments",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("capability", sa.String(length=64), nullable=False),
        sa.Column("artifact_id", sa.Uuid(), nullable=False),
        sa.Column("runtime_id", sa.Uuid(), nullable=False),
        sa.Column("embedding_identity_id", sa.Uuid(), nullable=False),
        sa.Column("served_model", sa.Text(), nullable=False),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("allows_truncation", sa.Boolean(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("stage IN ('production', 'nonproduction')", name=op.f("ck_deployments_stage")),
        sa.ForeignKeyConstraint(["artifact_id"], ["artifacts.id"], name=op.f("fk_deployments_artifact_id")),
        sa.ForeignKeyConstraint(
            ["embedding_identity_id"], ["embedding_identities.id"], name=op.f("fk_deployments_embedding_identity_id")
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_deployments_project_id")),
        sa.ForeignKeyConstraint(["runtime_id"], ["runtimes.id"], name=op.f("fk_deployments_runtime_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployments")),
        sa.UniqueConstraint("project_id", "slug", name=op.f("uq_deployments_project_id_slug")),
    )
    op.create_table(
        "suite_revisions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("suite_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("retrieval_settings", sa.Text(), nullable=False),
        sa.Column("retrieval_config_sha256", sa.String(length=64), nullable=False),
        sa.Column("case_count", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["suite_id"], ["suites.id"], name=op.f("fk_suite_revisions_suite_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suite_revisions")),
        sa.UniqueConstraint("suite_id", "digest", name=op.f("uq_suite_revisions_suite_id_digest")),
        sa.UniqueConstraint("suite_id", "number", name=op.f("uq_suite_revisions_suite_id_number")),
    )
    op.create_table(
        "project_bindings",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("capability", sa.String(length=64), nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("current_deployment_id", sa.Uuid(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["current_deployment_id"], ["deployments.id"], name=op.f("fk_project_bindings_current_deployment_id")
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_project_bindings_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project_bindings")),
        sa.UniqueConstraint(
            "project_id", "capability", "channel", name=op.f("uq_project_bindings_project_id_capability_channel")
        ),
    )
    op.create_table(
        "suite_cases",
        sa.Column("suite_revision_id", sa.Uuid(), nullable=False),
        sa.Column("case_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("is_critical", sa.Boolean(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("reviewed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("label_provenance", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["suite_revision_id"], ["suite_revisions.id"], name=op.f("fk_suite_cases_suite_revision_id")
        ),
        sa.PrimaryKeyConstraint("suite_revision_id", "case_id", name=op.f("pk_suite_cases")),
        sa.UniqueConstraint("suite_revision_id", "position", name=op.f("uq_suite_cases_suite_revision_id_position")),
    )
    op.create_table(
        "routes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_binding_id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("deployment_id", sa.Uuid(), nullable=True),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("(kind = 'stable') = (deployment_id IS NULL)", name=op.f("ck_routes_deployment")),
        sa.CheckConstraint("(kind = 'stable') = (slug = 'stable')", name=op.f("ck_routes_slug")),
        sa.CheckConstraint("kind IN ('stable', 'experiment')", name=op.f("ck_routes_kind")),
        sa.ForeignKeyConstraint(["deployment_id"], ["deployments.id"], name=op.f("fk_routes_deployment_id")),
        sa.ForeignKeyConstraint(
            ["project_binding_id"], ["project_bindings.id"], name=op.f("fk_routes_project_binding_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_routes")),
        sa.UniqueConstraint("project_binding_id", "slug", name=op.f("uq_routes_project_binding_id_slug")),
    )
    op.create_table(
        "service_clients",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("project_binding_id", sa.Uuid(), nullable=False),
        sa.Column("slug", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("capabilities", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_binding_id"], ["project_bindings.id"], name=op.f("fk_service_clients_project_binding_id")
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_service_clients_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_clients")),
        sa.UniqueConstraint("project_id", "slug", name=op.f("uq_service_clients_project_id_slug")),
    )
    op.create_index(
        op.f("ix_service_clients_project_binding_id"), "service_clients", ["project_binding_id"], unique=False
    )
    op.create_table(
        "credentials",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("service_client_id", sa.Uuid(), nullable=True),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(role = 'client') = (service_client_id IS NOT NULL)", name=op.f("ck_credentials_client")),
        sa.CheckConstraint("role IN ('viewer', 'operator', 'client')", name=op.f("ck_credentials_role")),
        sa.ForeignKeyConstraint(
            ["service_client_id"], ["service_clients.id"], name=op.f("fk_credentials_service_client_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credentials")),
        sa.UniqueConstraint("public_id", name=op.f("uq_credentials_public_id")),
    )
    op.create_index(op.f("ix_credentials_service_client_id"), "credentials", ["service_client_id"], unique=False)
    op.create_table(
        "gateway_requests",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("request_id", sa.String(length=32), nullable=False),
        sa.Column("service_client_id", sa.Uuid(), nullable=False),
        sa.Column("credential_id", sa.Uuid(), nullable=False),
        sa.Column("project_binding_id", sa.Uuid(), nullable=False),
        sa.Column("route_id", sa.Uuid(), nullable=False),
        sa.Column("deployment_id", sa.Uuid(), nullable=False),
        sa.Column("capability", sa.String(length=64), nullable=False),
        sa.Column("input_type", sa.String(length=16), nullable=False),
        sa.Column("input_sha256", sa.String(length=64), nullable=False),
        sa.Column("input_count", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("latency_ms", sa.Float(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=True),
        sa.Column("is_truncated", sa.Boolean(), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.CheckConstraint(
            "(status = 'failed') = (error_code IS NOT NULL)", name=op.f("ck_gateway_requests_error_code")
        ),
        sa.CheckConstraint(
            "(status = 'started') = (completed_at IS NULL)", name=op.f("ck_gateway_requests_completed_at")
        ),
        sa.CheckConstraint("status IN ('started', 'completed', 'failed')", name=op.f("ck_gateway_requests_status")),
        sa.ForeignKeyConstraint(["credential_id"], ["credentials.id"], name=op.f("fk_gateway_requests_credential_id")),
        sa.ForeignKeyConstraint(["deployment_id"], ["deployments.id"], name=op.f("fk_gateway_requests_deployment_id")),
        sa.ForeignKeyConstraint(
            ["project_binding_id"], ["project_bindings.id"], name=op.f("fk_gateway_requests_project_binding_id")
        ),
        sa.ForeignKeyConstraint(["route_id"], ["routes.id"], name=op.f("fk_gateway_requests_route_id")),
        sa.ForeignKeyConstraint(
            ["service_client_id"], ["service_clients.id"], name=op.f("fk_gateway_requests_service_client_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateway_requests")),
        sa.UniqueConstraint("request_id", name=op.f("uq_gateway_requests_request_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_gateway_requests_project_binding_id_id"),
        "gateway_requests",
        ["project_binding_id", "id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_gateway_requests_service_client_id_id"), "gateway_requests", ["service_client_id", "id"], unique=False
    )
    op.create_index(op.f("ix_gateway_requests_started_at"), "gateway_requests", ["started_at"], unique=False)


def downgrade() -> None:
    """Take it back."""

    op.drop_index(op.f("ix_gateway_requests_started_at"), table_name="gateway_requests")
    op.drop_index(op.f("ix_gateway_requests_service_client_id_id"), table_name="gateway_requests")
    op.drop_index(op.f("ix_gateway_requests_project_binding_id_id"), table_name="gateway_requests")
    op.drop_table("gateway_requests")
    op.drop_index(op.f("ix_credentials_service_client_id"), table_name="credentials")
    op.drop_table("credentials")
    op.drop_index(op.f("ix_service_clients_project_binding_id"), table_name="service_clients")
    op.drop_table("service_clients")
    op.drop_table("routes")
    op.drop_table("suite_cases")
    op.drop_table("project_bindings")
    op.drop_table("suite_revisions")
    op.drop_table("deployments")
    op.drop_table("suites")
    op.drop_table("runtimes")
    op.drop_table("embedding_identities")
    op.drop_index(op.f("ix_audit_events_subject_kind_subject_id"), table_name="audit_events")
    op.drop_index(op.f("ix_audit_events_project_id_id"), table_name="audit_events")
    op.drop_table("audit_events")
    op.drop_table("artifacts")
    op.drop_table("store_marks")
    op.drop_table("store_lineage")
    op.drop_table("store_epochs")
    op.drop_table("projects")

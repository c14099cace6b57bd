"""Comparisons and what they are published with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_0002"
down_revision = "20261130_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "comparisons",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("capability", sa.String(length=64), nullable=False),
        sa.Column("project_binding_id", sa.Uuid(), nullable=False),
        sa.Column("consumer_client_id", sa.Uuid(), nullable=False),
        sa.Column("suite_revision_id", sa.Uuid(), nullable=False),
        sa.Column("current_deployment_id", sa.Uuid(), nullable=False),
        sa.Column("candidate_deployment_id", sa.Uuid(), nullable=False),
        sa.Column("candidate_route_id", sa.Uuid(), nullable=False),
        sa.Column("corpus_sha256", sa.String(length=64), nullable=False),
        sa.Column("retrieval_config_sha256", sa.String(length=64), nullable=False),
        sa.Column("current_index_ref", sa.Text(), nullable=False),
        sa.Column("candidate_index_ref", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=128), nullable=False),
        sa.Column("input_sha256", sa.String(length=64), nullable=False),
        sa.Column("pins", sa.Text(), nullable=False),
        sa.Column("pins_digest", sa.String(length=64), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("case_count", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("claim_token_sha256", sa.String(length=64), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("current_completed_cases", sa.Integer(), nullable=False),
        sa.Column("candidate_completed_cases", sa.Integer(), nullable=False),
        sa.Column("cancelled_version", sa.Integer(), nullable=True),
        sa.Column("closing_sha256", sa.String(length=64), nullable=True),
        sa.Column("consumer_revision_sha256", sa.String(length=64), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.CheckConstraint(
            "(status = 'completed') = (consumer_revision_sha256 IS NOT NULL)", name=op.f("ck_comparisons_result")
        ),
        sa.CheckConstraint(
            "(status IN ('pending', 'running', 'cancel_requested')) = (ended_at IS NULL)",
            name=op.f("ck_comparisons_ended_at"),
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'running', 'cancel_requested', 'completed', 'failed', 'cancelled', 'interrupted')",
            name=op.f("ck_comparisons_status"),
        ),
        sa.CheckConstraint(
            "status NOT IN ('running', 'cancel_requested') OR claim_token_sha256 IS NOT NULL",
            name=op.f("ck_comparisons_claim_token"),
        ),
        sa.CheckConstraint("(claimed_at IS NULL) = (deadline_at IS NULL)", name=op.f("ck_comparisons_deadline")),
        sa.CheckConstraint("(claimed_at IS NULL) = (lease_expires_at IS NULL)", name=op.f("ck_comparisons_lease")),
        sa.ForeignKeyConstraint(
            ["candidate_deployment_id"], ["deployments.id"], name=op.f("fk_comparisons_candidate_deployment_id")
        ),
        sa.ForeignKeyConstraint(["candidate_route_id"], ["routes.id"], name=op.f("fk_comparisons_candidate_route_id")),
        sa.ForeignKeyConstraint(
            ["consumer_client_id"], ["service_clients.id"], name=op.f("fk_comparisons_consumer_client_id")
        ),
        sa.ForeignKeyConstraint(
            ["current_deployment_id"], ["deployments.id"], name=op.f("fk_comparisons_current_deployment_id")
        ),
        sa.ForeignKeyConstraint(
            ["project_binding_id"], ["project_bindings.id"], name=op.f("fk_comparisons_project_binding_id")
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_comparisons_project_id")),
        sa.ForeignKeyConstraint(
            ["suite_revision_id"], ["suite_revisions.id"], name=op.f("fk_comparisons_suite_revision_id")
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_comparisons")),
        sa.UniqueConstraint("id", name=op.f("uq_comparisons_id")),
        sa.UniqueConstraint(
            "project_binding_id", "idempotency_key", name=op.f("uq_comparisons_project_binding_id_idempotency_key")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_comparisons_active",
        "comparisons",
        ["lease_expires_at"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        op.f("ix_comparisons_project_binding_id_number"),
        "comparisons",
        ["project_binding_id", "number"],
        unique=False,
    )
    op.create_index(
        "uq_comparisons_active",
        "comparisons",
        ["project_binding_id"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "evaluation_runs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("comparison_id", sa.Uuid(), nullable=False),
        sa.Column("leg", sa.String(length=16), nullable=False),
        sa.Column("deployment_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("leg IN ('current', 'candidate')", name=op.f("ck_evaluation_runs_leg")),
        sa.ForeignKeyConstraint(["comparison_id"], ["comparisons.id"], name=op.f("fk_evaluation_runs_comparison_id")),
        sa.ForeignKeyConstraint(["deployment_id"], ["deployments.id"], name=op.f("fk_evaluation_runs_deployment_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluation_runs")),
        sa.UniqueConstraint("comparison_id", "leg", name=op.f("uq_evaluation_runs_comparison_id_leg")),
    )
    op.create_table(
        "evaluation_summaries",
        sa.Column("comparison_id", sa.Uuid(), nullable=False),
        sa.Column("metrics_version", sa.String(length=64), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["comparison_id"], ["comparisons.id"], name=op.f("fk_evaluation_summaries_comparison_id")
        ),
        sa.PrimaryKeyConstraint("comparison_id", name=op.f("pk_evaluation_summaries")),
    )
    op.create_table(
        "evaluation_results",
        sa.Column("evaluation_run_id", sa.Uuid(), nullable=False),
        sa.Column("case_id", sa.Uuid(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("latency_ms", sa.Float(), nullable=False),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("metrics", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_run_id"], ["evaluation_runs.id"], name=op.f("fk_evaluation_results_evaluation_run_id")
        ),
        sa.PrimaryKeyConstraint("evaluation_run_id", "case_id", name=op.f("pk_evaluation_results")),
    )
    op.create_table(
        "evaluation_evidence",
        sa.Column(
            "gateway_request_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("evaluation_run_id", sa.Uuid(), nullable=False),
        sa.Column("case_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_run_id", "case_id"],
            ["evaluation_results.evaluation_run_id", "evaluation_results.case_id"],
            name=op.f("fk_evaluation_evidence_evaluation_run_id_case_id"),
        ),
        sa.ForeignKeyConstraint(
            ["gateway_request_id"], ["gateway_requests.id"], name=op.f("fk_evaluation_evidence_gateway_request_id")
        ),
        sa.PrimaryKeyConstraint("gateway_request_id", name=op.f("pk_evaluation_evidence")),
        sa.UniqueConstraint(
            "evaluation_run_id", "case_id", name=op.f("uq_evaluation_evidence_evaluation_run_id_case_id")
        ),
    )


def downgrade() -> None:
    """Take it back."""
    op.drop_table("evaluation_evidence")
    op.drop_table("evaluation_results")
    op.drop_table("evaluation_summaries")
    op.drop_table("evaluation_runs")
    op.drop_table("comparisons")

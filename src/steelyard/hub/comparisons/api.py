"""The endpoints of operators and viewers: intents, history, cancelling. None of them starts an evaluator.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from steelyard.hub.comparisons import schemas, store
from steelyard.hub.comparisons.domain.comparison import Comparison
from steelyard.hub.comparisons.domain.published import CaseReport, LegReport
from steelyard.hub.comparisons.service import Comparisons, Outcome
from steelyard.hub.comparisons.transactions import reconcile_expired, settled
from steelyard.hub.db.database import Database
from steelyard.hub.rest.checks import Known, Operator, Viewer
from steelyard.hub.rest.fields import Expected
from steelyard.hub.rest.links import link, location
from steelyard.hub.rest.paging import Page, PageQuery, page_of
from steelyard.hub.rest.routers import rest_router

PATH = "/selected-model-comparisons"
_CREATED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": schemas.SelectedModelComparison,
        "description": "This key and input have made this comparison before.",
        "headers": {
            **location(),
            "Idempotent-Replayed": {"description": "`true`.", "schema": {"type": "string", "const": "true"}},
        },
    },
    201: {
        "headers": location(),
        "links": {
            "self": link("get_selected_model_comparison", path={"comparison_id": "id"}),
            "cancel": link(
                "cancel_selected_model_comparison",
                path={"comparison_id": "id"},
                body={"expected_version": "version"},
            ),
            "cases": link("list_compared_cases", path={"comparison_id": "id"}),
        },
    },
    409: {},
}


def comparisons_router(database: Database, *, rule: Mapping[str, Any]) -> APIRouter:
    """Return the endpoints under /api/v1; *rule* is that of the intents that are created."""
    router = rest_router(tag="comparisons", responses={403: {}})
    _add_create(router, database, rule)
    _add_history(router, database)
    _add_cancel(router, database)
    return router


def _add_create(router: APIRouter, database: Database, rule: Mapping[str, Any]) -> None:
    @router.post(PATH, status_code=201, responses=_CREATED)
    def create_selected_model_comparison(
        actor: Operator, body: schemas.NewComparison, response: Response
    ) -> schemas.SelectedModelComparison:
        """Create an intent, which waits until its consumer claims it. Nothing is started, and nothing promoted."""

        def create(comparisons: Comparisons) -> Outcome:
            return comparisons.create(body.intent(), key=body.idempotency_key, rule=rule)

        outcome = settled(database, actor, create)
        comparison = outcome.answer()
        response.headers["Location"] = f"/api/v1{PATH}/{comparison.id}"
        if not outcome.is_new:
            response.status_code = 200
            response.headers["Idempotent-Replayed"] = "true"
        return shown_by(database, comparison)


def _add_history(router: APIRouter, database: Database) -> None:
    @router.get(PATH)
    def list_selected_model_comparisons(
        _actor: Viewer, query: Annotated[schemas.HistoryQuery, Query()]
    ) -> Page[schemas.SelectedModelComparison]:
        """List comparisons, newest first."""
        reconcile_expired(database)
        with database.read() as connection:
            found = store.page(connection, **query.arguments())
            summaries = store.summaries_of(connection, [each.id for each in found[: query.limit]])
        return page_of([schemas.shown(each, summary=summaries.get(each.id)) for each in found], query=query)

    @router.get(f"{PATH}/{{comparison_id:uuid}}")
    def get_selected_model_comparison(_actor: Viewer, comparison_id: UUID) -> schemas.SelectedModelComparison:
        """Get one comparison with its evaluation summary."""
        reconcile_expired(database)
        with database.read() as connection:
            comparison = store.get(connection, comparison_id)
        return shown_by(database, comparison)

    @router.get(f"{PATH}/{{comparison_id:uuid}}/cases")
    def list_compared_cases(
        _actor: Viewer, comparison_id: UUID, query: Annotated[PageQuery, Query()]
    ) -> Page[schemas.ReportedCase]:
        """List a comparison's cases in the suite's order, with what both legs gave and how it was judged."""
        with database.read() as connection:
            comparison = store.get(connection, comparison_id)
            found = store.page_of_cases(connection, comparison, limit=query.limit, offset=query.offset)
        return page_of([_case(each) for each in found], query=query)


def _add_cancel(router: APIRouter, database: Database) -> None:
    @router.post(f"{PATH}/{{comparison_id:uuid}}/cancel", responses={409: {}})
    def cancel_selected_model_comparison(
        actor: Operator,
        comparison_id: UUID,
        _found: Annotated[None, Depends(Known(_getter(database)))],
        body: Expected,
    ) -> schemas.SelectedModelComparison:
        """Cancel a pending comparison; of a running one, ask its consumer to stop."""

        def cancel(comparisons: Comparisons) -> Outcome:
            return comparisons.cancel(comparison_id, expected_version=body.expected_version)

        return shown_by(database, settled(database, actor, cancel).answer())


def shown_by(database: Database, comparison: Comparison) -> schemas.SelectedModelComparison:
    """Return what a caller is shown of *comparison*, with its summary where it has one."""
    if comparison.status != "completed":
        return schemas.shown(comparison)
    with database.read() as connection:
        summaries = store.summaries_of(connection, [comparison.id])
    return schemas.shown(comparison, summary=summaries[comparison.id])


def _getter(database: Database) -> Callable[[UUID], object]:
    def get(comparison_id: UUID) -> None:
        with database.read() as connection:
            store.get(connection, comparison_id)

    return get


def _case(case: CaseReport) -> schemas.ReportedCase:
    return schemas.ReportedCase(
        case_id=case.case_id,
        query=case.query,
        critical=case.critical,
        labels=case.labels,
        current=_leg(case.current),
        candidate=_leg(case.candidate),
    )


def _leg(leg: LegReport | None) -> schemas.ReportedCaseLeg | None:
    if leg is None:
        return None
    return schemas.ReportedCaseLeg(
        ranked_results=leg.answer,
        latency_ms=leg.latency_ms,
        error_code=leg.error_code,
        gateway_request_id=leg.gateway_request_id,
        gateway_latency_ms=leg.gateway_latency_ms,
        metrics=leg.metrics,
    )

"""The endpoints of the designated client: its work, the claim, progress, and the two ends.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from typing import Annotated, Any, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from steelyard.hub.comparisons import schemas, store
from steelyard.hub.comparisons.api import PATH, shown_by
from steelyard.hub.comparisons.capabilities.known import CAPABILITIES
from steelyard.hub.comparisons.domain.comparison import Comparison
from steelyard.hub.comparisons.publication import publish
from steelyard.hub.comparisons.service import Comparisons, Outcome
from steelyard.hub.comparisons.transactions import count_beat, reconcile_expired, settled
from steelyard.hub.db.database import Database
from steelyard.hub.errors import NotAuthorised, UnknownThing
from steelyard.hub.principal import Actor, Principal
from steelyard.hub.rest.checks import Allowed, Check
from steelyard.hub.rest.paging import Page
from steelyard.hub.rest.routers import rest_router
from steelyard.hub.suites import store as suites

_STATES: dict[int | str, dict[str, Any]] = {403: {}, 409: {}}
_NO_STORE: dict[int | str, dict[str, Any]] = {
    **_STATES,
    200: {"headers": {"Cache-Control": {"description": "`no-store`.", "schema": {"type": "string"}}}},
}


class _Caller(NamedTuple):
    actor: Actor
    client_id: UUID
    binding_id: UUID


class _Consumer(Check[_Caller]):
    """The caller is a service client that is authorised for a capability whose deployments can be compared."""

    def __init__(self) -> None:
        self._is_client = Allowed("client")

    async def make(self, request: Request) -> _Caller:
        """Return who calls; raises NotAuthorised."""
        actor = await self._is_client(request)
        principal: Principal = request.scope["state"]["principal"]
        client_id, binding_id = principal.service_client_id, principal.project_binding_id
        if client_id is None or binding_id is None or principal.capabilities.isdisjoint(CAPABILITIES):
            raise NotAuthorised(f"This needs a client that is authorised for {' or '.join(CAPABILITIES)}")
        return _Caller(actor, client_id, binding_id)


class _Designated(Check[None]):
    """The comparison that the path names is the caller's to carry out; of any other it learns nothing."""

    def __init__(self, database: Database, consumer: _Consumer) -> None:
        self._database = database
        self._consumer = consumer

    async def make(self, request: Request) -> None:
        """Look the comparison up; raises UnknownThing."""
        caller = await self._consumer(request)
        comparison = await run_in_threadpool(self._get, request.path_params["comparison_id"])
        if comparison.intent.consumer_client_id != caller.client_id:
            raise UnknownThing("No comparison has this id")

    def _get(self, comparison_id: UUID) -> Comparison:
        with self._database.read() as connection:
            return store.get(connection, comparison_id)


def consumer_router(database: Database) -> APIRouter:
    """Return the endpoints under /api/v1."""
    router = rest_router(tag="comparisons")
    consumer = _Consumer()
    caller: Any = Annotated[_Caller, Depends(consumer)]
    designated: Any = Annotated[None, Depends(_Designated(database, consumer))]
    _add_work(router, database, caller, designated)
    _add_progress(router, database, caller, designated)
    _add_ends(router, database, caller, designated)
    return router


def _add_work(router: APIRouter, database: Database, caller_of: Any, designated: Any) -> None:
    @router.get(f"{PATH}/assigned", responses={403: {}})
    def list_assigned_comparisons(
        caller: caller_of, query: Annotated[schemas.AssignedQuery, Query()]
    ) -> Page[schemas.SelectedModelComparison]:
        """List the caller's comparisons that have not ended: those to claim, and those that it has claimed."""
        reconcile_expired(database)
        with database.read() as connection:
            found = store.page_of_active(
                connection, limit=query.limit, binding_id=caller.binding_id, client_id=caller.client_id
            )
        items = [schemas.shown(each) for each in found[: query.limit]]
        return Page(items=items, limit=query.limit, offset=0, has_more=len(found) > query.limit)

    @router.post(f"{PATH}/{{comparison_id:uuid}}/claim", responses=_NO_STORE)
    def claim_comparison(
        caller: caller_of,
        comparison_id: UUID,
        _designated: designated,
        response: Response,
        _body: Annotated[schemas.ClaimRequest | None, Body(examples=[{}])] = None,
    ) -> schemas.Claimed:
        """Claim a pending comparison. It is given once, ever: its answer alone has the token."""
        outcome, token = settled(database, caller.actor, lambda comparisons: comparisons.claim(comparison_id))
        comparison = outcome.answer()
        count_beat(database)
        response.headers["Cache-Control"] = "no-store"
        return _claimed(database, comparison, token=token)


def _add_progress(router: APIRouter, database: Database, caller_of: Any, designated: Any) -> None:
    @router.post(f"{PATH}/{{comparison_id:uuid}}/progress", responses=_STATES)
    def report_comparison_progress(
        caller: caller_of, comparison_id: UUID, _designated: designated, body: schemas.Progress
    ) -> schemas.Heartbeat:
        """Renew the claim's lease; the deadline stays. The answer says whether an operator wants it cancelled."""

        def progress(comparisons: Comparisons) -> Outcome:
            return comparisons.progress(
                comparison_id,
                token=body.claim_token,
                current=body.current_completed_cases,
                candidate=body.candidate_completed_cases,
            )

        return schemas.heartbeat_of(settled(database, caller.actor, progress).answer())


def _add_ends(router: APIRouter, database: Database, caller_of: Any, designated: Any) -> None:
    @router.post(f"{PATH}/{{comparison_id:uuid}}/result", responses=_STATES)
    def publish_comparison_result(
        caller: caller_of, comparison_id: UUID, _designated: designated, body: schemas.NewResult
    ) -> schemas.SelectedModelComparison:
        """Publish both legs: everything is committed together, or nothing is. The hub computes the metrics."""
        outcome = publish(database, comparison_id, body.reported(), actor=caller.actor)
        return shown_by(database, outcome.answer())

    @router.post(f"{PATH}/{{comparison_id:uuid}}/finish", responses=_STATES)
    def finish_comparison(
        caller: caller_of, comparison_id: UUID, _designated: designated, body: schemas.Finish
    ) -> schemas.SelectedModelComparison:
        """End a claim without a result: as failed, or as cancelled where that was requested."""

        def finish(comparisons: Comparisons) -> Outcome:
            return comparisons.finish(
                comparison_id,
                token=body.claim_token,
                sha256=body.sha256,
                outcome=body.outcome,
                error_code=body.error_code,
            )

        return shown_by(database, settled(database, caller.actor, finish).answer())


def _claimed(database: Database, comparison: Comparison, *, token: str) -> schemas.Claimed:
    with database.read() as connection:
        revision = suites.get_revision(connection, comparison.intent.suite_revision_id)
        cases = suites.cases_of(connection, revision.id)
    capability = CAPABILITIES[comparison.capability]
    return schemas.claimed_of(comparison, revision, cases, token=token, capability=capability)

"""The endpoint that plans a declarative document and carries it out, in one transaction.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from fastapi import APIRouter

from steelyard.hub.db.database import Database
from steelyard.hub.declare import service
from steelyard.hub.declare.schemas import Applied, Apply
from steelyard.hub.rest.checks import Operator
from steelyard.hub.rest.routers import rest_router


def declare_router(database: Database) -> APIRouter:
    """Return the endpoint under /api/v1."""
    router = rest_router(tag="declaration", responses={403: {}})

    @router.post("/apply", responses={409: {}})
    def apply_document(actor: Operator, body: Apply) -> Applied:
        """Make the hub have what a document says, all of it or nothing; a dry run says what would be done."""
        with database.write() as connection:
            now = database.now(connection)
            if body.dry_run:
                plan = service.rehearse(connection, body.document, actor=actor, now=now)
            else:
                plan = service.apply(connection, body.document, plan_digest=body.plan_digest, actor=actor, now=now)
        return Applied(steps=plan.steps, plan_digest=plan.digest, is_applied=not body.dry_run)

    return router

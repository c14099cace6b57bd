"""The endpoints for credentials. A secret is in the answer that issues it, and nowhere else.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from steelyard.hub.credentials import schemas, service, store
from steelyard.hub.credentials.domain import Credential
from steelyard.hub.db.database import Database
from steelyard.hub.rest.access import Operator
from steelyard.hub.rest.bodies import StrictRoute
from steelyard.hub.rest.paging import Page, page_of
from steelyard.hub.rest.problems import problems

_NOT_KEPT = {"Cache-Control": "no-store"}


def credentials_router(database: Database) -> APIRouter:
    """Return the endpoints under /api/v1; all of them are the operator's."""
    router = APIRouter(route_class=StrictRoute, tags=["credentials"], responses=problems(400, 401, 403, 429))

    @router.post("/credentials", status_code=201, responses=problems(408, 413, 415, 422))
    def issue(body: schemas.NewCredential, actor: Operator, response: Response) -> schemas.Issued:
        """Issue a viewer's or an operator's credential; its secret is shown once."""
        response.headers.update(_NOT_KEPT)
        with database.write() as connection:
            credential, secret = service.issue(
                connection, role=body.role, name=body.name, actor=actor, now=database.now(connection)
            )
        return schemas.Issued(credential=credential, secret=secret.text)

    @router.post(
        "/service-clients/{client_id}/credentials", status_code=201, responses=problems(404, 408, 409, 413, 415, 422)
    )
    def issue_for_client(
        client_id: UUID, body: schemas.NewClientCredential, actor: Operator, response: Response
    ) -> schemas.Issued:
        """Issue a service client's next secret, which is shown once; two may be live while it rotates."""
        response.headers.update(_NOT_KEPT)
        with database.write() as connection:
            credential, secret = service.issue_for_client(
                connection, client_id, name=body.name, actor=actor, now=database.now(connection)
            )
        return schemas.Issued(credential=credential, secret=secret.text)

    @router.get("/credentials", responses=problems(422))
    def list_credentials(query: Annotated[schemas.CredentialQuery, Query()], _actor: Operator) -> Page[Credential]:
        """List credentials, live and revoked, without their secrets."""
        with database.read() as connection:
            return page_of(store.page(connection, **query.arguments()), query=query)

    @router.get("/credentials/{credential_id}", responses=problems(404, 422))
    def get_credential(credential_id: UUID, _actor: Operator) -> Credential:
        """Get one credential, without its secret."""
        with database.read() as connection:
            return store.get(connection, credential_id)

    @router.post("/credentials/{credential_id}/revoke", responses=problems(404, 409, 422))
    def revoke(credential_id: UUID, actor: Operator) -> Credential:
        """End a credential for good; doing it again changes nothing."""
        with database.write() as connection:
            return service.revoke(connection, credential_id, actor=actor, now=database.now(connection))

    return router

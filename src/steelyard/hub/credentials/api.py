"""The endpoints for credentials. A secret is in the answer that issues it, and nowhere else.

Annotations are real objects here, since FastAPI reads them when a function is made.
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from steelyard.hub.catalog import store as catalog
from steelyard.hub.catalog.domain import ServiceClient
from steelyard.hub.credentials import schemas, service, store
from steelyard.hub.credentials.domain import Credential, NewSecret
from steelyard.hub.db.database import Database
from steelyard.hub.rest.checks import Known, Operator
from steelyard.hub.rest.links import link, location
from steelyard.hub.rest.paging import Page, page_of
from steelyard.hub.rest.routers import rest_router

_FORBIDDEN: dict[int | str, dict[str, Any]] = {403: {}}
_CONFLICT: dict[int | str, dict[str, Any]] = {403: {}, 409: {}}
_ISSUED: dict[int | str, dict[str, Any]] = {
    201: {
        "headers": {
            **location(),
            "Cache-Control": {"description": "`no-store`.", "schema": {"type": "string"}},
        },
        "links": {
            name: {**link(f"{name}_credential"), "parameters": {"credential_id": "$response.body#/credential/id"}}
            for name in ("get", "revoke")
        },
    }
}


def credentials_router(database: Database) -> APIRouter:
    """Return the endpoints under /api/v1; all of them are the operator's."""
    router = rest_router(tag="credentials")
    _add_issuing(router, database)
    _add_reading(router, database)

    @router.post("/credentials/{credential_id:uuid}/revoke", responses=_CONFLICT)
    def revoke_credential(actor: Operator, credential_id: UUID) -> Credential:
        """End a credential for good; doing it again changes nothing."""
        with database.write() as connection:
            return service.revoke(connection, credential_id, actor=actor, now=database.now(connection))

    return router


def _add_issuing(router: APIRouter, database: Database) -> None:
    def get_client(client_id: UUID) -> None:
        with database.read() as connection:
            catalog.get(connection, ServiceClient, client_id)

    @router.post("/credentials", status_code=201, responses={**_FORBIDDEN, **_ISSUED})
    def issue_credential(actor: Operator, body: schemas.NewCredential, response: Response) -> schemas.Issued:
        """Issue a viewer's or an operator's credential; its secret is shown once."""
        with database.write() as connection:
            credential, secret = service.issue(
                connection, role=body.role, name=body.name, actor=actor, now=database.now(connection)
            )
        return _issued(credential, secret, response)

    @router.post("/service-clients/{thing_id:uuid}/credentials", status_code=201, responses={**_CONFLICT, **_ISSUED})
    def issue_client_credential(
        actor: Operator,
        thing_id: UUID,
        _found: Annotated[None, Depends(Known(get_client))],
        body: schemas.NewClientCredential,
        response: Response,
    ) -> schemas.Issued:
        """Issue a service client's next secret, which is shown once; two may be live while it rotates."""
        with database.write() as connection:
            credential, secret = service.issue_for_client(
                connection, thing_id, name=body.name, actor=actor, now=database.now(connection)
            )
        return _issued(credential, secret, response)


def _add_reading(router: APIRouter, database: Database) -> None:
    @router.get("/credentials", responses=_FORBIDDEN)
    def list_credentials(_actor: Operator, query: Annotated[schemas.CredentialQuery, Query()]) -> Page[Credential]:
        """List credentials, live and revoked, without their secrets."""
        with database.read() as connection:
            return page_of(store.page(connection, **query.arguments()), query=query)

    @router.get("/credentials/{credential_id:uuid}", responses=_FORBIDDEN)
    def get_credential(_actor: Operator, credential_id: UUID) -> Credential:
        """Get one credential, without its secret."""
        with database.read() as connection:
            return store.get(connection, credential_id)


def _issued(credential: Credential, secret: NewSecret, response: Response) -> schemas.Issued:
    response.headers["Location"] = f"/api/v1/credentials/{credential.id}"
    response.headers["Cache-Control"] = "no-store"
    return schemas.Issued(credential=credential, secret=secret.text)

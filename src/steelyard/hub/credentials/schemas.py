"""What requests about credentials look like, and the one answer that holds a secret."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from steelyard.hub.credentials.domain import Credential
from steelyard.hub.principal import Role
from steelyard.hub.rest.fields import Body, Name, example
from steelyard.hub.rest.paging import PageQuery


class NewCredential(Body):
    """A credential for a person or a program that watches or operates the hub."""

    model_config = example(role="viewer", name="Dashboard")

    role: Literal["viewer", "operator"]
    name: Name


class NewClientCredential(Body):
    """A service client's next secret; it may have two live ones while it rotates."""

    model_config = example(name="December 2026")

    name: Name


class Issued(BaseModel):
    """A new credential with its secret, which is shown here and never again."""

    credential: Credential
    secret: str = Field(description="Send it as `Authorization: Bearer …`.")


class CredentialQuery(PageQuery):
    """Credentials, without their secrets."""

    public_id: Annotated[str | None, Field(None, pattern=r"^[0-9A-Za-z]{12}$")]
    role: Role | None = None
    service_client_id: UUID | None = None

"""Finding things by the names that people use: a slug, a capability, a credential's public id, or the id itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from steelyard.hall.texts import shorten
from steelyard.hub.remote.errors import NotNamed
from steelyard.hub.remote.nouns import BY_NAME, Noun

if TYPE_CHECKING:
    from steelyard.client import HubClient, Thing


@dataclass(frozen=True)
class Names:
    """The names of one hub; *project*, where given, says in which project to look."""

    client: HubClient
    project: str | None = None

    @cached_property
    def project_id(self) -> str | None:
        """The id of the project to look in."""
        return None if self.project is None else Names(self.client).id_of(BY_NAME["projects"], self.project)

    def id_of(self, noun: Noun, name: str) -> str:
        """Return the id of the one thing that is called so; raises NotNamed."""
        if _is_id(name):
            return name
        if noun.named_by is None:
            raise NotNamed(f"{shorten(name)} is no id, and a {noun.singular} has no other name: give the whole id")
        found = self._called(noun, name)
        if len(found) == 1:
            return str(found[0]["id"])
        where = f" in project {self.project}" if self.project and noun.is_owned else ""
        if not found:
            raise NotNamed(f"No {noun.singular} is called {shorten(name)}{where}")
        hint = "give the id" if where or not noun.is_owned else "add --project, or give the id"
        raise NotNamed(f"{len(found)} {noun.name} are called {shorten(name)}{where}: {hint}")

    def only_binding(self) -> str:
        """Return the id of the project's one binding; raises NotNamed."""
        found = list(self.client.all("project-bindings", project_id=self.project_id))
        if len(found) != 1:
            raise NotNamed(f"Project {self.project} has {len(found)} bindings: say which with --binding")
        return str(found[0]["id"])

    def _called(self, noun: Noun, name: str) -> list[Thing]:
        if noun.name == "routes":
            return self._routes(name)
        filters: dict[str, Any] = {"project_id": self.project_id} if noun.is_owned else {}
        return list(self.client.all(noun.collection, **{str(noun.named_by): name}, **filters))

    def _routes(self, slug: str) -> list[Thing]:
        """Return the routes called *slug*; a route belongs to a project by its binding."""
        if self.project_id is None:
            return list(self.client.all("routes", slug=slug))
        bindings = self.client.all("project-bindings", project_id=self.project_id)
        return [
            route
            for binding in bindings
            for route in self.client.all("routes", slug=slug, project_binding_id=binding["id"])
        ]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True

"""A document as the plan reads it: each thing under its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.hub.declare.domain import Key, Kind, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.hub.declare.schemas import BindingPart, Document, ProjectPart
    from steelyard.hub.rest.fields import Body
    from steelyard.hub.suites.domain import Content

_INNER = frozenset({"artifacts", "runtimes", "identities", "deployments", "bindings", "routes", "clients", "suites"})


def wanted_of(document: Document) -> dict[Key, Wanted]:
    """Return every thing of *document*; a client that stands under two bindings counts under the last."""
    wanted = {}
    for slug, part in document.projects.items():
        wanted[Key("project", (slug,))] = _wanted(part)
        wanted.update(_of_project(slug, part))
    return wanted


def _of_project(project: str, part: ProjectPart) -> Iterator[tuple[Key, Wanted]]:
    sections: Mapping[Kind, Mapping[str, Body]] = {
        "artifact": part.artifacts,
        "runtime": part.runtimes,
        "identity": part.identities,
        "deployment": part.deployments,
    }
    for kind, things in sections.items():
        for slug, thing in things.items():
            yield Key(kind, (project, slug)), _wanted(thing)
    for slug, suite in part.suites.items():
        yield Key("suite", (project, slug)), _wanted(suite, inner=frozenset({"revision"}))
        if suite.revision:
            yield Key("suite_revision", (project, slug)), _revision(suite.revision.content())
    for capability, binding in part.bindings.items():
        yield Key("binding", (project, capability)), _wanted(binding)
        yield from _of_binding(project, capability, binding)


def _of_binding(project: str, capability: str, part: BindingPart) -> Iterator[tuple[Key, Wanted]]:
    for slug, route in part.routes.items():
        yield Key("route", (project, capability, slug)), _wanted(route)
    for slug, client in part.clients.items():
        yield Key("client", (project, slug)), _wanted(client, binding=capability)


def _revision(content: Content) -> Wanted:
    """Return the revision with what tells it from another for the plan, and all of it for its making."""
    shown = {
        "digest": content.digest,
        "case_count": len(content.cases),
        "retrieval_settings": content.retrieval_settings,
    }
    return Wanted(given=shown, full={"content": content})


def _wanted(part: Body, *, inner: frozenset[str] = _INNER, **more: str) -> Wanted:
    return Wanted(
        given={**part.model_dump(exclude=set(inner), exclude_unset=True, exclude_none=True), **more},
        full={**part.model_dump(exclude=set(inner)), **more},
    )

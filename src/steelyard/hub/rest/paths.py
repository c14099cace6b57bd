"""The hub's paths, as their own names: for metrics, for the log and for the Allow header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import compile_path

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable

OTHER = "other"


class Paths:
    """Every path that is served, with its methods; those with an id in them are templates."""

    def __init__(self, routes: Iterable[tuple[str, Collection[str]]]) -> None:
        self.methods: dict[str, set[str]] = {}
        self._templates: list[tuple[re.Pattern[str], str]] = []
        for path, methods in routes:
            pattern, template, _convertors = compile_path(path)
            if template not in self.methods and "{" in template:
                self._templates.append((pattern, template))
            self.methods.setdefault(template, set()).update(methods)

    def label(self, path: str) -> str:
        """Return *path* with a name in place of its id, `other` where there is no such path: one of few labels."""
        if path in self.methods:
            return path
        return next((template for pattern, template in self._templates if pattern.match(path)), OTHER)

    def allowed(self, path: str) -> str:
        """Return the value of the Allow header at *path*."""
        return ", ".join(sorted(self.methods.get(self.label(path), ())))

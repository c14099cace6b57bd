"""The capabilities whose deployments can be compared."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from steelyard.hub.comparisons.capabilities.retrieval import Retrieval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.hub.comparisons.domain.capability import Capability

CAPABILITIES: Mapping[str, Capability] = MappingProxyType({each.name: each for each in (Retrieval(),)})

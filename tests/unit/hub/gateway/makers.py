"""Domain values of the gateway with everything filled in."""

from __future__ import annotations

import uuid
from typing import Any

from steelyard.hub.gateway.domain.targets import CAPABILITY, Deployment, Identity, Lead, Runtime


def identity(**changes: Any) -> Identity:
    return Identity(**{"dimension": 4, "max_length": 16, "query_prompt": "q: ", "document_prompt": "d: ", **changes})


def deployment(**changes: Any) -> Deployment:
    runtime = Runtime(id=uuid.uuid4(), base_url="http://x/v1", on_overlong="refuses", key_variable=None, timeout_s=1.0)
    fields: dict[str, Any] = {
        "id": uuid.uuid4(), "slug": "old", "capability": CAPABILITY, "is_active": True, "served_model": "m",
        "allows_truncation": False, "runtime": runtime, "identity": identity(),
    }  # fmt: skip
    return Deployment(**{**fields, **changes})


def lead(**changes: Any) -> Lead:
    fields = {"is_binding_active": True, "route_id": uuid.uuid4(), "is_route_active": True, "deployment": deployment()}
    return Lead(**{**fields, **changes})

from __future__ import annotations

import uuid
from dataclasses import fields

from tests.unit.hub.gateway.makers import lead

from steelyard.hub.db.tables import gateway_requests
from steelyard.hub.gateway.domain.calls import Call
from steelyard.hub.gateway.domain.entries import Ended, LoggedRequest, Started, started
from steelyard.hub.gateway.domain.targets import Client, require_target


def test_an_end_without_an_error_is_a_completion():
    assert Ended("r", latency_ms=1.0).status == "completed"
    assert Ended("r", latency_ms=1.0, error_code="not_finite").status == "failed"


def test_entries_name_columns_of_the_log():
    columns = set(gateway_requests.c.keys())
    assert {field.name for kind in (Started, Ended, LoggedRequest) for field in fields(kind)} <= columns


def test_a_call_begins_with_what_evidence_needs_of_it_and_no_text():
    call = Call("next", ("a secret text", "b"), input_type="document")
    target = require_target(lead(), model="next")
    client = Client(credential_id=uuid.uuid4(), service_client_id=uuid.uuid4(), project_binding_id=uuid.uuid4())
    entry = started(call, target, client=client, request_id="r" * 32)
    assert (entry.input_sha256, entry.input_count, entry.input_type) == (call.input_sha256, 2, "document")
    assert (entry.deployment_id, entry.capability) == (target.deployment.id, "rag.embedding@1")
    assert "secret" not in repr(entry)

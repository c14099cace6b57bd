"""Every error has its status and its problem."""

from __future__ import annotations

import inspect
import json
import uuid

import pytest

from steelyard.hall.errors import SteelyardError
from steelyard.hub import errors
from steelyard.hub.db import errors as store_errors
from steelyard.hub.db.errors import ConstraintViolated, StoreBusy, StoreError, StoreUnavailable
from steelyard.hub.errors import HubError, NotEligible, VersionConflict
from steelyard.hub.rest.problems import RETRY_AFTER_S, STATUS_OF, TITLE_OF, malformed, problem_for, status_of
from steelyard.web.errors import Busy, RequestRefused, Unauthorized

REQUEST_ID = "0d9cd3f54d2f4a608a3b0a4f8d2b6f11"


def content(error: Exception) -> dict[str, object]:
    answer = problem_for(error, request_id=REQUEST_ID)
    assert answer.media_type == "application/problem+json"
    fields: dict[str, object] = json.loads(bytes(answer.body))
    assert fields["status"] == answer.status_code
    return fields


def below(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(lower for child in kind.__subclasses__() for lower in below(child))]


@pytest.mark.parametrize("kind", sorted(set(below(HubError)[1:]), key=str))
def test_every_error_of_the_hub_has_a_status(kind):
    assert status_of(kind.__new__(kind)) in TITLE_OF


def test_every_code_of_the_hubs_own_errors_is_a_stable_name():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HubError)]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(code == code.upper() for code in codes)


def test_every_status_has_its_title_and_retries_are_for_errors_that_pass():
    assert set(STATUS_OF.values()) <= set(TITLE_OF)
    assert {STATUS_OF[kind] for kind in RETRY_AFTER_S} == {503}


@pytest.mark.parametrize("kind", RequestRefused.__subclasses__())
def test_every_refusal_of_http_itself_has_a_title(kind):
    assert kind.status in TITLE_OF


def test_a_problem_has_the_members_of_rfc_9457_and_a_code():
    assert content(NotEligible("They do not fit")) == {
        "type": "about:blank", "title": "Conflict", "status": 409, "detail": "They do not fit",
        "instance": uuid.UUID(REQUEST_ID).urn, "code": "NOT_ELIGIBLE",
    }  # fmt: skip


def test_a_version_conflict_tells_the_present_version():
    assert content(VersionConflict(current_version=7))["current_version"] == 7


def test_headers_of_a_refusal_are_sent():
    assert problem_for(Unauthorized(), request_id=REQUEST_ID).headers["WWW-Authenticate"] == "Bearer"
    assert problem_for(Busy(), request_id=REQUEST_ID).headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    "kind", [store_errors.StoreMissing, store_errors.StoreFull, store_errors.StoreReadOnly, StoreBusy, StoreUnavailable]
)
def test_a_store_that_is_away_is_a_503_with_a_time_to_wait(kind):
    answer = problem_for(kind(), request_id=REQUEST_ID)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1


def test_a_damaged_store_is_a_500_that_says_so():
    assert content(store_errors.StoreCorrupt())["code"] == "STORE_CORRUPT"


@pytest.mark.parametrize("error", [ConstraintViolated("hunter2"), StoreError("hunter2"), RuntimeError("hunter2")])
def test_what_nobody_foresaw_says_nothing_of_itself(error):
    assert content(error)["code"] == "INTERNAL_ERROR"
    assert "hunter2" not in str(content(error))


def test_of_a_failing_store_the_log_has_the_first_line_of_the_drivers_words(caplog):
    error = StoreUnavailable()
    error.__cause__ = OSError("connection refused\nDETAIL: Key (slug)=(hunter2)")
    content(error)
    assert "connection refused" in caplog.text
    assert "hunter2" not in caplog.text


def test_an_error_of_another_room_is_unforeseen():
    assert status_of(SteelyardError()) is None


def test_what_is_no_http_is_answered_as_a_problem():
    body, kind = malformed("invalid_request", "Malformed HTTP: illegal request line")
    assert kind == "application/problem+json"
    assert json.loads(body).keys() == {"type", "title", "status", "detail", "instance", "code"}
    assert json.loads(body)["code"] == "INVALID_REQUEST"

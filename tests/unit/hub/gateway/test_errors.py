from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from steelyard.hub.gateway.api import STATUS_OF, answer_for
from steelyard.hub.gateway.domain.errors import GatewayError, InvalidCall, UpstreamOverloaded
from steelyard.web.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Iterator


def kinds(root: type[GatewayError] = GatewayError) -> Iterator[type[GatewayError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


@pytest.mark.parametrize("kind", [k for k in kinds() if k is not InvalidCall], ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_a_code_and_a_sentence(kind):
    answer = answer_for(kind())
    error = json.loads(bytes(answer.body))["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert 400 <= answer.status_code < 600
    assert error["message"] == str(kind()) != ""
    assert (answer.status_code == 503) == ("retry-after" in answer.headers)


def test_codes_are_unique_where_they_can_reach_a_row():
    leaves = [kind for kind in kinds() if "code" in vars(kind)]
    assert len({kind.code for kind in leaves}) == len(leaves)


def test_the_table_names_no_error_twice_through_its_class():
    assert all(issubclass(kind, GatewayError) for kind in STATUS_OF)


def test_an_overloaded_server_says_when_to_come_back():
    assert answer_for(UpstreamOverloaded(retry_after_s=7)).headers["retry-after"] == "7"


def test_an_invalid_call_names_its_field():
    answer = answer_for(InvalidCall("Wrong", field="input"))
    assert json.loads(bytes(answer.body))["error"]["param"] == "input"


def test_a_refusal_of_http_itself_has_the_same_shape():
    answer = answer_for(Busy())
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert json.loads(bytes(answer.body))["error"]["type"] == "rate_limit_error"


def test_what_nobody_foresaw_says_nothing_of_itself():
    answer = answer_for(ValueError("a secret text"))
    assert answer.status_code == 500
    assert b"secret" not in bytes(answer.body)

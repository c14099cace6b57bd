"""The exchanges on docs/howto/comparison-consumer.md are what a serving hub answers, and its commands work."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing

import httpx2
import pytest
from tests.gateway.consumer_exchanges import PAGE, PART, Clock, Recorder, page_with, texts
from tests.gateway.consumer_world import shop
from tests.gateway.serving import WAIT_S

from steelyard.hall.canonical import sha256_of_json
from steelyard.hub.db.database import Database


@pytest.fixture(scope="module")
def exchanges():
    return texts()


def test_every_exchange_of_the_page_is_as_a_serving_hub_answers_it(exchanges):
    assert page_with(exchanges) == PAGE.read_text(encoding="utf-8")


def test_the_page_shows_every_exchange_that_was_made_but_the_operators_own(exchanges):
    shown = [name for _begin, name, _end in PART.findall(PAGE.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(set(exchanges) - {"cancel"})


def test_the_pins_that_the_page_shows_have_the_digest_that_it_shows(exchanges):
    claim = json.loads(exchanges["claim"].split("\n\n")[1].removesuffix("\n```\n"))
    assert sha256_of_json(claim["comparison"]["pins"]) == claim["comparison"]["pins_digest"]
    assert sha256_of_json(claim["retrieval_settings"]) == claim["comparison"]["retrieval_config_sha256"]


def curl(line: str, variables: dict[str, str], *, files: dict[str, bytes]) -> httpx2.Response:
    """Send what a line asks curl to send; it may use -s, -i, -X, -H and -d."""
    words = shlex.split(re.sub(r"\$(\w+)", lambda match: variables[match[1]], line))
    assert words.pop(0) == "curl"
    url, method, headers, body = "", None, {}, None
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            text = words.pop(0)
            body = files[text[1:]] if text.startswith("@") else text.encode()
        elif not word.startswith("-"):
            url = word
        else:
            assert set(word) <= set("-si")
    with httpx2.Client(trust_env=False, timeout=WAIT_S) as client:
        return client.request(method or ("GET" if body is None else "POST"), url, headers=headers, content=body)


def test_the_curl_lines_work_in_their_order(sqlite_databases, upstream):
    [lines] = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with sqlite_databases.fresh() as url, closing(Database(url)) as database, shop(database, upstream) as served:
        comparison = served.create()
        variables = {"ID": comparison["id"], **served.environ}
        assigned, claim, embed, progress, result, finish = lines.splitlines()
        [found] = curl(assigned, variables, files={}).json()["items"]
        assert found == comparison
        claimed = curl(claim, variables, files={}).json()
        variables["TOKEN"] = claimed["claim_token"]
        assert len(curl(embed, variables, files={}).headers["x-request-id"]) == 32
        assert curl(progress, variables, files={}).json()["status"] == "running"
        files = {"result.json": json.dumps(Recorder(served, Clock()).result(claimed)).encode()}
        assert curl(result, variables, files=files).json()["status"] == "completed"
        assert curl(finish, variables, files={}).json()["code"] == "COMPARISON_ENDED"

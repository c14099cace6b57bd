"""The commands that make and end credentials on the hub's own machine."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.hub_process import STEELYARD, hub_environ, hubs_serving
from tests.processes import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = re.compile(r"steelyard_operator_([0-9A-Za-z]{12})_[0-9A-Za-z]{49}\n")


@pytest.fixture
def run(empty_url) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `steelyard hub …` on a database that is not there yet."""

    def call(*arguments: str, code: int = 0, text: str = "") -> subprocess.CompletedProcess[str]:
        finished = subprocess.run(
            [STEELYARD, "hub", *arguments], env=hub_environ(empty_url), input=text, capture_output=True, text=True,
            check=False, timeout=WAIT_S,
        )  # fmt: skip
        assert finished.returncode == code, finished
        assert "Traceback" not in finished.stderr
        return finished

    return call


def status(url: str, secret: str) -> int:
    return httpx2.get(f"{url}/api/v1/projects", headers={"Authorization": f"Bearer {secret.strip()}"}).status_code


def test_init_makes_the_database_and_prints_the_secret_alone_on_stdout(run, empty_url):
    made = run("init")
    match = SECRET.fullmatch(made.stdout)
    assert match
    assert match.group(1) not in made.stderr
    assert "shown once" in made.stderr
    with hubs_serving(empty_url) as [server]:
        assert status(server.url, made.stdout) == 200


def test_init_again_makes_another_operator_while_a_hub_serves_and_the_first_one_stays(run, empty_url):
    first = run("init").stdout
    with hubs_serving(empty_url) as [server]:
        second = run("init").stdout
        assert (status(server.url, first), status(server.url, second)) == (200, 200)
    assert first != second


def test_rescue_lists_live_credentials_without_their_secrets(run):
    secrets = [run("init").stdout for _ in range(2)]
    lines = run("rescue", "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[secret.split("_")[2], "operator"] for secret in secrets[::-1]]
    assert all(line.endswith("  hub init") for line in lines)
    assert not any(secret.strip()[-49:] in line for secret in secrets for line in lines)


def test_rescue_revokes_at_once_by_public_id_or_by_a_secret_on_stdin(run, empty_url):
    leaked, found, kept = (run("init").stdout for _ in range(3))
    with hubs_serving(empty_url) as [server]:
        told = run("rescue", "revoke", leaked.split("_")[2])
        assert told.stdout == f"{leaked.split('_')[2]} is revoked: operator, hub init\n"
        assert run("rescue", "revoke", "-", text=found).stdout.startswith(found.split("_")[2])
        assert [status(server.url, secret) for secret in (leaked, found, kept)] == [401, 401, 200]
    assert len(run("rescue", "list").stdout.splitlines()) == 1


def test_rescue_never_revokes_the_last_operator_and_says_what_to_do(run):
    secret = run("init").stdout
    refused = run("rescue", "revoke", "-", text=secret, code=1)
    assert "issue another one first" in refused.stderr
    assert refused.stdout == ""


def test_rescue_says_in_one_sentence_what_is_not_there(run):
    assert run("rescue", "list", code=2).stderr.startswith("Error: ")
    run("init")
    refused = run("rescue", "revoke", "hunter2", code=1)
    assert refused.stderr == "Error: No credential has this public id\n"


def test_a_revocation_at_the_console_is_in_the_trail_as_local(run, empty_url):
    leaked, kept = (run("init").stdout for _ in range(2))
    run("rescue", "revoke", leaked.split("_")[2])
    with hubs_serving(empty_url) as [server]:
        own = {"Authorization": f"Bearer {kept.strip()}"}
        [event] = httpx2.get(f"{server.url}/api/v1/audit-events?action=credential.revoke", headers=own).json()["items"]
    assert (event["actor_role"], event["actor"], event["request_id"]) == ("local", "local", None)
    assert event["after"]["public_id"] == leaked.split("_")[2]

"""Comparisons through real hub processes: restarts, kills, several hubs on one database, and the drill of a restore."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from click.testing import CliRunner
from tests.comparing import PATH, make_stage
from tests.hub_api import Asked, Caller
from tests.hub_process import hubs_serving
from tests.processes import WAIT_S

from steelyard.cli import main
from steelyard.hub.db.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.comparing import Stage
    from tests.processes import Server


@pytest.fixture
def stage(database) -> Stage:
    """Give a world, and no hub yet; what a consumer's requests leave in the log is written by this process."""
    with closing(Asked(database)) as asked:
        stage = make_stage(asked)
    database.close()
    return stage


@contextmanager
def served(stage: Stage, *, count: int = 1) -> Iterator[list[tuple[Server, Stage]]]:
    """Start hubs over the stage's database, and give each with the stage as asked through it."""
    url = stage.database.url.render_as_string(hide_password=False)
    with ExitStack() as stack:
        hubs = stack.enter_context(hubs_serving(url, count=count))
        there = []
        for hub in hubs:
            client = stack.enter_context(httpx2.Client(base_url=hub.url, trust_env=False, timeout=WAIT_S))
            operator, consumer = (Caller(client, caller.secret) for caller in (stage.operator, stage.consumer))
            there.append((hub, replace(stage, operator=operator, consumer=consumer)))
        yield there


def progress(stage: Stage, comparison: Any, claim: Any, current: int = 0) -> Any:
    counts: dict[str, Any] = {"current_completed_cases": current, "candidate_completed_cases": 0}
    return stage.call(comparison, "progress", claim_token=claim["claim_token"], **counts)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["a restart", "a kill"])
def test_a_claim_goes_on_after(stage, end):
    with served(stage) as [(hub, there)]:
        comparison, claim = there.claimed()
        assert progress(there, comparison, claim, 1).status_code == 200
        hub.stop(end)
    with served(stage) as [(hub, there)]:
        now = there.read(comparison)
        assert (now["status"], now["current_completed_cases"]) == ("running", 1)
        [assigned] = there.consumer.get(f"{PATH}/assigned").json()["items"]
        assert assigned == now
        assert there.call(comparison, "claim").json()["code"] == "COMPARISON_CLAIM_TAKEN"
        beat = progress(there, comparison, claim, 2)
        assert beat.status_code == 200
        assert beat.json()["claim_expires_at"] > now["claim_expires_at"]
        result = there.result(claim)
        first = there.call(comparison, "result", **result)
        assert (first.status_code, first.json()["status"]) == (200, "completed")
        hub.stop(end)
    with served(stage) as [(_hub, there)]:
        again = there.call(comparison, "result", **result)
        assert (again.status_code, again.json()) == (200, first.json())
        assert "store.restored" not in actions(there)


@pytest.fixture
def on_postgresql(postgresql_databases) -> Iterator[Stage]:
    with postgresql_databases.fresh() as url, closing(Database(url)) as database:
        with closing(Asked(database)) as asked:
            stage = make_stage(asked)
        database.close()
        yield stage


def test_two_hubs_on_one_postgresql_see_one_truth(on_postgresql):
    with served(on_postgresql, count=2) as [(_, one), (_, other)]:
        for here, there in ((one, other), (other, one)):
            comparison = here.create()
            assert there.read(comparison) == here.read(comparison) == comparison
            claim = there.claim(comparison)
            assert here.call(comparison, "claim").json()["code"] == "COMPARISON_CLAIM_TAKEN"
            assert progress(here, comparison, claim, 1).json()["current_completed_cases"] == 1
            assert progress(there, comparison, claim, 0).json()["code"] == "COMPARISON_COUNTS_FELL"
            assert here.operator.post(PATH, **here.body()).json()["code"] == "COMPARISON_ACTIVE"
            asked = there.call(comparison, "cancel", caller=there.operator, expected_version=2)
            assert asked.json()["status"] == "cancel_requested"
            assert progress(here, comparison, claim, 1).json()["cancel_requested"] is True
            assert here.call(comparison, "result", **here.result(claim)).json()["code"] == "COMPARISON_CANCEL_REQUESTED"
            ended = here.call(comparison, "finish", claim_token=claim["claim_token"], outcome="cancelled")
            assert ended.json()["status"] == "cancelled"
            assert there.read(comparison) == here.read(comparison) == ended.json()
            comparison = there.create()
            claim = here.claim(comparison)
            result = there.result(claim)
            published = there.call(comparison, "result", **result)
            assert published.status_code == 200
            again = here.call(comparison, "result", **result)
            assert (again.status_code, again.json()) == (200, published.json())
            assert here.operator.get(PATH).json() == there.operator.get(PATH).json()


def test_two_hubs_on_one_postgresql_give_a_claim_once_and_make_one_intent(on_postgresql):
    with served(on_postgresql, count=2) as [(_, one), (_, other)], ThreadPoolExecutor(16) as threads:
        for _ in range(5):
            body = one.body()
            creates = [partial((one, other)[n % 2].operator.post, PATH, **body) for n in range(16)]
            answers = list(threads.map(lambda call: call(), creates))
            assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 15}
            comparison = answers[0].json()
            claims = [partial((one, other)[n % 2].call, comparison, "claim") for n in range(8)]
            answers = list(threads.map(lambda call: call(), claims))
            assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 7}
            [claim] = [answer.json() for answer in answers if answer.status_code == 200]
            result = one.result(claim)
            results = [partial((one, other)[n % 2].call, comparison, "result", **result) for n in range(4)]
            answers = list(threads.map(lambda call: call(), results))
            assert [answer.status_code for answer in answers] == [200] * 4
            assert all(answer.json() == answers[0].json() for answer in answers)


def run(stage: Stage, *arguments: str, code: int = 0) -> str:
    """Run `steelyard hub db …` on the stage's database, to which this process is not connected then."""
    stage.database.close()
    url = stage.database.url.render_as_string(hide_password=False)
    result = CliRunner().invoke(main, ["hub", "db", *arguments], env={"STEELYARD_HUB_DATABASE": url})
    assert result.exit_code == code, result.output
    return result.output


def actions(stage: Stage) -> list[str]:
    return [event["action"] for event in stage.operator.get("/audit-events").json()["items"]]


def test_the_drill_of_a_restore_with_the_product_s_own_commands(stage, tmp_path: Path):
    backup = str(tmp_path / "backup.db")
    with served(stage) as [(hub, there)]:
        done, claim = there.claimed()
        result = there.result(claim)
        done = there.call(done, "result", **result).json()
        running, claim = there.claimed()
        run(stage, "backup", backup)
        late = there.call(running, "result", **there.result(claim))
        assert late.json()["status"] == "completed", "after the backup, so that the restored data has never heard of it"
        after, _claim = there.claimed()
        hub.stop()
    run(stage, "restore", "--force", backup)
    assert "the next start begins a new one" in run(stage, "check")
    with served(stage) as [(hub, there)]:
        hub.log.wait_for("The database was restored since it was last used")
        now = there.read(running)
        assert (now["status"], now["error_code"], now["version"]) == (
            "interrupted", "COMPARISON_RESTORE_INTERRUPTED", 3,
        )  # fmt: skip
        assert {name: now[name] for name in ("pins", "pins_digest", "claimed_at")} == {
            name: claim["comparison"][name] for name in ("pins", "pins_digest", "claimed_at")
        }
        assert there.operator.get(f"{PATH}/{after['id']}").status_code == 404
        assert there.consumer.get(f"{PATH}/assigned").json()["items"] == []
        for answer in (progress(there, running, claim), there.call(running, "result", **there.result(claim))):
            assert (answer.status_code, answer.json()["code"]) == (409, "COMPARISON_RESTORE_INTERRUPTED")
        assert there.read(done) == done
        again = there.call(done, "result", **result)
        assert (again.status_code, again.json()["code"]) == (409, "COMPARISON_ENDED")
        assert actions(there)[:2] == ["comparison.interrupt", "store.restored"]
        comparison, claim = there.claimed()
        assert there.call(comparison, "result", **there.result(claim)).status_code == 200
    run(stage, "check")
    assert "history" in run(stage, "downgrade", "nothing", code=2)

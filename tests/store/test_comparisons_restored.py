"""A restored database interrupts what it cannot know the end of, keeps what was published, and starts nothing."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import select, update
from tests.comparing import PATH, make_stage
from tests.hub_api import Asked

from steelyard.hub.comparisons.transactions import count_beat
from steelyard.hub.db import epoch, sidecar, tables
from steelyard.hub.db.backup import take
from steelyard.hub.db.check import check
from steelyard.hub.db.database import Database
from steelyard.hub.db.restore import restore
from steelyard.hub.db.serving import serving
from steelyard.hub.startup import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.comparing import Stage

RESTORED = "COMPARISON_RESTORE_INTERRUPTED"
ACTIVE = ("pending", "running", "cancel_requested")
PUBLISHED = (
    tables.evaluation_runs,
    tables.evaluation_results,
    tables.evaluation_evidence,
    tables.evaluation_summaries,
    tables.gateway_requests,
)


@dataclass(frozen=True)
class Kept:
    """One project's comparison, its claim if it had one, and the result that it was published with."""

    stage: Stage
    comparison: Any
    claim: Any = None
    result: Any = None


def nothing_to_show(_done: int, _total: int) -> None:
    pass


def in_every_state(asked: Asked) -> dict[str, Kept]:
    """Make a project for each state that a comparison can be in, with one in it."""
    kept: dict[str, Kept] = {}
    for status in (*ACTIVE, "completed", "failed", "cancelled", "interrupted"):
        stage = make_stage(asked, slug=status.replace("_", "-"))
        if status == "pending":
            kept[status] = Kept(stage, stage.create())
            continue
        comparison, claim = stage.claimed()
        result = stage.result(claim)
        end = {"claim_token": claim["claim_token"]}
        if status in ("cancel_requested", "cancelled"):
            stage.call(comparison, "cancel", caller=stage.operator, expected_version=2)
        if status == "completed":
            stage.call(comparison, "result", **result)
        if status in ("failed", "cancelled"):
            stage.call(comparison, "finish", **end, outcome=status)
        if status == "interrupted":
            with asked.database.write() as connection:
                now = asked.database.now(connection)
                is_it = tables.comparisons.c.project_id == select(tables.projects.c.id).where(
                    tables.projects.c.slug == "interrupted"
                ).scalar_subquery()  # fmt: skip
                connection.execute(update(tables.comparisons).where(is_it).values(lease_expires_at=now))
        kept[status] = Kept(stage, stage.read(comparison), claim, result)
        assert kept[status].comparison["status"] == status
    return kept


def at(stage: Stage, asked: Asked) -> Stage:
    """Return the stage at another hub."""
    operator, consumer = (asked.holder(each.secret) for each in (stage.operator, stage.consumer))
    return replace(stage, asked=asked, operator=operator, consumer=consumer)


def rows(database: Database) -> dict[str, Any]:
    with database.read() as connection:
        found = connection.execute(select(tables.comparisons).order_by(tables.comparisons.c.number)).all()
    return {str(row.id): row for row in found}


def published(database: Database) -> dict[str, list[str]]:
    with database.read() as connection:
        return {
            table.name: sorted(repr(tuple(row)) for row in connection.execute(select(table))) for table in PUBLISHED
        }


def trail(database: Database) -> list[tuple[str, str, str]]:
    with database.read() as connection:
        found = connection.execute(select(tables.audit_events).order_by(tables.audit_events.c.id)).all()
    return [(event.action, event.subject_id, event.actor) for event in found]


@pytest.fixture
def source(database, database_url) -> Iterator[Asked]:
    """Give a hub that has begun its first epoch."""
    open_database(database_url, upgrade=False).close()
    with closing(Asked(database)) as asked:
        yield asked


@pytest.fixture(params=["sqlite", "postgresql"])
def target_url(request) -> Iterator[str]:
    """Give a database to restore to, of each kind in turn."""
    with request.getfixturevalue(f"{request.param}_databases").fresh(is_migrated=False) as url:
        yield url


def test_a_restored_backup_interrupts_what_was_active_and_keeps_what_was_published(source, target_url, tmp_path):
    kept = in_every_state(source)
    before, evidence, told = rows(source.database), published(source.database), trail(source.database)
    take(source.database, tmp_path / "backup.db", on_progress=nothing_to_show)
    source.close()
    target = Database(target_url)
    restore(target, tmp_path / "backup.db", on_progress=nothing_to_show)
    assert rows(target) == before
    target.close()

    with closing(open_database(target_url, upgrade=False)) as opened, closing(Asked(opened)) as asked:
        require_interrupted(opened, before, evidence, told)
        there = {status: replace(each, stage=at(each.stage, asked)) for status, each in kept.items()}
        for status in ACTIVE:
            require_over(there[status])
            require_a_new_intent(there[status], last_number=max(row.number for row in before.values()))
        require_still_published(there["completed"])
    after = rows(target)
    open_database(target_url, upgrade=False).close()
    assert rows(target) == after, "a second start is no restore"
    assert [finding for finding in check(target) if not finding.is_good] == []
    target.close()


def require_interrupted(
    database: Database, before: dict[str, Any], evidence: dict[str, list[str]], told: list[tuple[str, str, str]]
) -> None:
    """Require that active rows are interrupted, every token gone, and that nothing else has changed."""
    after = rows(database)
    assert list(after) == list(before)
    for comparison_id, row in before.items():
        assert after[comparison_id].claim_token_sha256 is None
        if row.status not in ACTIVE:
            assert after[comparison_id]._mapping == {**row._mapping, "claim_token_sha256": None}
            continue
        changed = {name for name, value in row._mapping.items() if value != after[comparison_id]._mapping[name]}
        assert changed == {"status", "version", "ended_at", "error_code"} | (
            set() if row.status == "pending" else {"claim_token_sha256"}
        )
        found = after[comparison_id]
        assert (found.status, found.error_code, found.version) == ("interrupted", RESTORED, row.version + 1)
    assert published(database) == evidence
    interrupted = [("comparison.interrupt", str(row.id), "hub") for row in before.values() if row.status in ACTIVE]
    [restored, *others] = trail(database)[len(told) :]
    assert (restored[0], others) == ("store.restored", interrupted)


def require_over(kept: Kept) -> None:
    """Require that every late call is refused, and that the consumer has nothing to do."""
    stage, comparison = kept.stage, kept.comparison
    assert stage.consumer.get(f"{PATH}/assigned").json()["items"] == []
    answers = [stage.call(comparison, "claim")]
    if kept.claim is not None:
        token = {"claim_token": kept.claim["claim_token"]}
        answers += [
            stage.call(comparison, "progress", **token, current_completed_cases=0, candidate_completed_cases=0),
            stage.call(comparison, "result", **kept.result),
            stage.call(comparison, "finish", **token, outcome="failed"),
            stage.call(comparison, "finish", **token, outcome="cancelled"),
        ]
    if comparison["status"] != "cancel_requested":  # Whose cancel was accepted before.
        version = comparison["version"]
        answers.append(stage.call(comparison, "cancel", caller=stage.operator, expected_version=version))
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(409, RESTORED)}
    assert {answer.json()["current_version"] for answer in answers} == {comparison["version"] + 1}


def require_a_new_intent(kept: Kept, *, last_number: int) -> None:
    """Require that the old key gives the interrupted one, and a new key a new one, which old requests cannot end."""
    stage = kept.stage
    again = stage.operator.post(PATH, **stage.body(idempotency_key=kept.comparison["idempotency_key"]))
    assert (again.status_code, again.json()["status"]) == (200, "interrupted")
    comparison, claim = stage.claimed()
    assert rows(stage.database)[comparison["id"]].number > last_number
    [newest, *_] = stage.operator.get(PATH).json()["items"]
    assert newest["id"] == comparison["id"]
    if kept.result is not None:
        requests = {name: kept.result[name] for name in ("current_gateway_requests", "candidate_gateway_requests")}
        answer = stage.call(comparison, "result", **{**stage.result(claim), **requests})
        assert (answer.status_code, answer.json()["code"]) == (422, "EVIDENCE_OUTSIDE_CLAIM")
    assert stage.call(comparison, "result", **stage.result(claim)).status_code == 200


def require_still_published(kept: Kept) -> None:
    """Require that a published result reads as before, and that nobody holds its claim any more."""
    assert kept.stage.read(kept.comparison) == kept.comparison
    again = kept.stage.call(kept.comparison, "result", **kept.result)
    assert (again.status_code, again.json()["code"]) == (409, "COMPARISON_ENDED")
    comparison, claim = kept.stage.claimed()
    stolen = {**kept.stage.result(claim), "current_gateway_requests": kept.result["current_gateway_requests"]}
    answer = kept.stage.call(comparison, "result", **stolen)
    assert (answer.status_code, answer.json()["code"]) == (422, "EVIDENCE_REUSED")


# Copies that nobody marked.


@pytest.fixture
def on_sqlite(sqlite_databases) -> Iterator[Stage]:
    with sqlite_databases.fresh() as url, ExitStack() as stack:
        database = stack.enter_context(closing(open_database(url, upgrade=False)))
        asked = stack.enter_context(closing(Asked(database)))
        yield make_stage(asked)


def copy_of(database: Database, path: Path) -> Path:
    with closing(sqlite3.connect(database.path)) as reading, closing(sqlite3.connect(path)) as writing:
        reading.backup(writing)
    return path


def put_back(database: Database, copy: Path) -> None:
    """Put a copy of the file in its place, as an operator would who knows only the file."""
    database.close()
    for ending in ("-wal", "-shm"):
        database.path.with_name(database.path.name + ending).unlink(missing_ok=True)
    shutil.copyfile(copy, database.path)


def test_a_file_from_before_a_claim_is_noticed_even_if_the_hub_was_killed_right_after_it(on_sqlite, tmp_path):
    stage = on_sqlite
    comparison = stage.create()
    copy = copy_of(stage.database, tmp_path / "copy.db")
    claim = stage.claim(comparison)
    put_back(stage.database, copy)
    with closing(open_database(str(stage.database.url), upgrade=False)):
        assert stage.read(comparison)["error_code"] == RESTORED
        kept = Kept(stage, comparison, claim, stage.result(claim))
        require_over(kept)


def test_a_file_from_after_a_claim_goes_on_if_nothing_has_happened_since(on_sqlite, tmp_path):
    stage = on_sqlite
    comparison, claim = stage.claimed()
    put_back(stage.database, copy_of(stage.database, tmp_path / "copy.db"))
    with closing(open_database(str(stage.database.url), upgrade=False)):
        assert stage.read(comparison)["status"] == "running"
        assert stage.call(comparison, "result", **stage.result(claim)).status_code == 200


def test_a_file_from_while_a_hub_served_is_noticed_once_that_hub_has_ended(on_sqlite, tmp_path):
    stage = on_sqlite
    with serving(stage.database):
        comparison, _claim = stage.claimed()
        copy = copy_of(stage.database, tmp_path / "copy.db")
    put_back(stage.database, copy)
    with closing(open_database(str(stage.database.url), upgrade=False)):
        assert stage.read(comparison)["error_code"] == RESTORED


def test_a_file_without_its_sidecar_is_a_restored_one(on_sqlite):
    stage = on_sqlite
    comparison, _claim = stage.claimed()
    stage.database.path.with_name(f"{stage.database.path.name}.epoch").unlink()
    with closing(open_database(str(stage.database.url), upgrade=False)):
        assert stage.read(comparison)["error_code"] == RESTORED


@pytest.mark.parametrize("how", ["a copied database", "a loaded dump"])
def test_a_copy_of_postgresql_interrupts_what_was_active(postgresql_databases, postgres, how):
    with postgresql_databases.fresh() as url:
        database = open_database(url, upgrade=False)
        with closing(Asked(database)) as asked:
            kept = in_every_state(asked)
        before, evidence, told = rows(database), published(database), trail(database)
        database.close()
        name = str(database.url.database)
        copy_url = url
        if how == "a copied database":
            copy_url = postgres.create(f"{name}_copy", template=name)
        else:
            dump = postgres.dump(name)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP SCHEMA public CASCADE")
                connection.execute("CREATE SCHEMA public")
            postgres.load(name, dump)
        with closing(open_database(copy_url, upgrade=False)) as opened, closing(Asked(opened)) as asked:
            require_interrupted(opened, before, evidence, told)
            for status in ACTIVE:
                require_over(replace(kept[status], stage=at(kept[status].stage, asked)))
        if copy_url != url:
            with closing(open_database(url, upgrade=False)) as original:
                assert rows(original) == before, "the original goes on"
            postgres.drop(f"{name}_copy")


def test_what_a_restore_interrupts_is_interrupted_with_it_or_not_at_all(source, database_url, tmp_path, monkeypatch):
    stage = make_stage(source)
    comparison, _claim = stage.claimed()
    take(source.database, tmp_path / "backup.db", on_progress=nothing_to_show)
    restore(source.database, tmp_path / "backup.db", replaces=True, on_progress=nothing_to_show)
    source.database.close()

    def fail(*_arguments: object, **_fields: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("steelyard.hub.audit.store.record", fail)
        with pytest.raises(ZeroDivisionError):
            open_database(database_url, upgrade=False)
    source.database.close()
    assert rows(source.database)[comparison["id"]].status == "running"
    open_database(database_url, upgrade=False).close()
    assert rows(source.database)[comparison["id"]].error_code == RESTORED


def test_claims_given_at_once_leave_a_sidecar_that_says_their_last_beat(on_sqlite, caplog):
    """Half of them through another hub. A sidecar that is half written, or behind, would tell lies of a restore."""
    stage = on_sqlite
    url = str(stage.database.url)
    with closing(Database(url)) as other, ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            beats = [partial(count_beat, (stage.database, other)[n % 2]) for n in range(16)]
            list(threads.map(lambda beat: beat(), beats))
            with stage.database.read() as connection:
                present = epoch.current(connection)
                assert epoch.why_restored(stage.database, connection) is None
            assert present is not None
            assert sidecar.read(stage.database.path) == sidecar.Sidecar(epoch_id=present.epoch_id, beat=present.beat)
    assert "beat after a claim failed" not in caplog.text

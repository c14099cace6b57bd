"""The request log's writer: what is committed together, what a failure takes with it, and how it ends."""

from __future__ import annotations

import asyncio
import threading
import uuid
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.gateway.serving import WAIT_S, serving
from tests.gateway.world import make_world

from steelyard.hub.db.errors import StoreFull
from steelyard.hub.gateway import log, store
from steelyard.hub.gateway.domain.entries import Ended, Started
from steelyard.hub.gateway.domain.errors import LogUnavailable
from steelyard.hub.gateway.log import RequestLog


@pytest.fixture
def quiet_world(database):
    return make_world(database, base_url="http://127.0.0.1:1/v1")


def start_of(world, **changes) -> Started:
    entry = Started(
        request_id=uuid.uuid4().hex, service_client_id=world.client.id, credential_id=world.credential_id,
        project_binding_id=world.binding.id, route_id=world.next_route.id, deployment_id=world.current.id,
        capability="rag.embedding@1", input_type="query", input_sha256="0" * 64, input_count=1,
    )  # fmt: skip
    return replace(entry, **changes)


def write_all(writer: RequestLog, *entries) -> list[BaseException | None]:
    """Write *entries* at once, and give what became of each."""

    async def write() -> list[BaseException | None]:
        return await asyncio.gather(*map(writer.write, entries), return_exceptions=True)

    return asyncio.run(write())


class Commits:
    """Notes the size of every commit; the first one waits until it is let go."""

    def __init__(self, monkeypatch) -> None:
        self.sizes: list[int] = []
        self.has_begun = threading.Event()
        self.release = threading.Event()
        self._commit = store.commit
        monkeypatch.setattr(store, "commit", self.commit)

    def commit(self, database, entries) -> None:
        self.sizes.append(len(entries))
        if len(self.sizes) == 1:
            self.has_begun.set()
            assert self.release.wait(WAIT_S)
        self._commit(database, entries)


@contextmanager
def writing(world, **fields):
    writer = RequestLog(world.database, **fields)
    try:
        yield writer
    finally:
        writer.close()


@pytest.mark.parametrize(("is_grouping", "sizes"), [(True, [1, 9]), (False, [1] * 10)])
def test_what_arrives_during_a_commit_is_committed_together_unless_grouping_is_off(
    quiet_world, monkeypatch, is_grouping, sizes
):
    commits = Commits(monkeypatch)

    async def write(writer: RequestLog) -> None:
        first = asyncio.create_task(writer.write(start_of(quiet_world)))
        await asyncio.to_thread(commits.has_begun.wait, WAIT_S)
        rest = [asyncio.create_task(writer.write(start_of(quiet_world))) for _ in range(9)]
        while writer._queue.qsize() < 9:
            await asyncio.sleep(0)
        commits.release.set()
        await asyncio.gather(first, *rest)

    with writing(quiet_world, is_grouping=is_grouping) as writer:
        asyncio.run(write(writer))
    assert commits.sizes == sizes
    assert len(quiet_world.rows()) == 10


def test_a_commit_has_one_time_of_the_databases_clock(quiet_world):
    entries = [start_of(quiet_world) for _ in range(3)]
    store.commit(quiet_world.database, entries)
    store.commit(quiet_world.database, [Ended(entry.request_id, latency_ms=1.0) for entry in entries])
    rows = quiet_world.rows()
    assert len({row["started_at"] for row in rows}) == len({row["completed_at"] for row in rows}) == 1
    assert abs(rows[0]["completed_at"] - datetime.now(UTC)) < timedelta(seconds=5)


def test_an_entry_at_fault_fails_alone(quiet_world):
    good = [start_of(quiet_world) for _ in range(5)]
    bad = start_of(quiet_world, route_id=uuid.uuid4())  # No such route.
    with writing(quiet_world) as writer:
        results = write_all(writer, *good, bad)
        assert writer.is_healthy
    assert [type(result) for result in results] == [type(None)] * 5 + [LogUnavailable]
    assert {row["request_id"] for row in quiet_world.rows()} == {entry.request_id for entry in good}


def test_the_end_of_a_call_without_a_row_is_an_error(quiet_world):
    entry = start_of(quiet_world)
    with writing(quiet_world) as writer:
        assert write_all(writer, entry) == [None]
        end = Ended(entry.request_id, latency_ms=1.0)
        results = write_all(writer, end, Ended("0" * 32, latency_ms=1.0))
        assert [type(result) for result in results] == [type(None), LogUnavailable]
        assert type(write_all(writer, end)[0]) is LogUnavailable  # It has ended already.
    assert quiet_world.row()["status"] == "completed"


def failing(error: BaseException):
    def commit(_database, _entries):
        raise error

    return commit


def test_a_commit_that_fails_is_bad_health_until_one_succeeds(quiet_world, monkeypatch):
    with writing(quiet_world) as writer:
        assert writer.is_healthy
        with monkeypatch.context() as patched:
            patched.setattr(store, "commit", failing(StoreFull()))
            results = write_all(writer, start_of(quiet_world), start_of(quiet_world))
            assert [type(result) for result in results] == [LogUnavailable] * 2
            assert not writer.is_healthy
        assert write_all(writer, start_of(quiet_world)) == [None]
        assert writer.is_healthy


def test_bad_health_ends_by_itself_so_that_traffic_can_come_back(quiet_world, monkeypatch):
    monkeypatch.setattr(log, "_BAD_S", 0.0)
    with writing(quiet_world) as writer, monkeypatch.context() as patched:
        patched.setattr(store, "commit", failing(StoreFull()))
        write_all(writer, start_of(quiet_world))
        assert writer.is_healthy


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_ends_fails_everybody_and_is_bad_health(quiet_world, monkeypatch):
    monkeypatch.setattr(store, "commit", failing(SystemExit()))
    with writing(quiet_world) as writer:
        results = write_all(writer, *[start_of(quiet_world) for _ in range(3)])
        assert [type(result) for result in results] == [LogUnavailable] * 3
        writer._thread.join(WAIT_S)
        assert not writer.is_healthy
        assert type(write_all(writer, start_of(quiet_world))[0]) is LogUnavailable


def test_closing_commits_what_is_queued_and_takes_nothing_more(quiet_world, monkeypatch):
    commits = Commits(monkeypatch)
    writer = RequestLog(quiet_world.database)

    async def write() -> list[BaseException | None]:
        tasks = [asyncio.create_task(writer.write(start_of(quiet_world)))]
        await asyncio.to_thread(commits.has_begun.wait, WAIT_S)
        tasks += [asyncio.create_task(writer.write(start_of(quiet_world))) for _ in range(4)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(writer.close))
        commits.release.set()
        await closing
        with pytest.raises(LogUnavailable):
            await writer.write(start_of(quiet_world))
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert asyncio.run(write()) == [None] * 5
    assert len(quiet_world.rows()) == 5
    writer.close()  # A second time changes nothing.


def test_who_does_not_wait_for_ever_is_told_that_the_commit_is_not_known(quiet_world, monkeypatch):
    monkeypatch.setattr(log, "_PATIENCE_S", 0.05)
    commits = Commits(monkeypatch)
    with writing(quiet_world) as writer:
        assert type(write_all(writer, start_of(quiet_world))[0]) is LogUnavailable
        commits.release.set()
    assert quiet_world.row()["status"] == "started"


@pytest.fixture
def broken(monkeypatch):
    """Fails every commit of one kind of entry."""

    def of(kind):
        real = store.commit

        def commit(database, entries):
            if any(isinstance(entry, kind) for entry in entries):
                raise StoreFull
            real(database, entries)

        monkeypatch.setattr(store, "commit", commit)

    return of


def test_where_the_start_cannot_be_committed_nothing_is_asked_and_the_client_gets_a_503(served, upstream, broken):
    broken(Started)
    answer = served.post({"model": "stable", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "log_unavailable")
    assert answer.headers["retry-after"] == "1"
    assert upstream.asked == []
    assert served.ask("GET", "/health?ready").status_code == 503
    assert served.ask("GET", "/health").status_code == 200


def test_where_the_end_cannot_be_committed_the_client_gets_a_503_and_the_row_stays_started(served, broken):
    broken(Ended)
    answer = served.post({"model": "stable", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "log_unavailable")
    assert served.world.row()["status"] == "started"
    assert served.hub.admission.in_progress == 0


def test_a_catalogue_that_cannot_be_read_is_a_503(world, monkeypatch):
    def fail(*_arguments, **_fields):
        raise StoreFull

    monkeypatch.setattr(store, "find_lead", fail)
    monkeypatch.setattr(store, "list_routes", fail)
    with serving(world) as served:
        for answer in (served.post({"model": "stable", "input": "a"}), served.ask("GET", "/v1/models")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "catalogue_unavailable")


def test_without_grouping_every_answer_has_its_row_too(world):
    with serving(world, group_commit="off") as served:
        assert [served.post({"model": "stable", "input": "a"}).status_code for _ in range(3)] == [200] * 3
    assert [row["status"] for row in world.rows()] == ["completed"] * 3

"""How much memory the control groups of this process leave, on folders that stand in for the kernel's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from steelyard.decide.engines import host_memory
from steelyard.decide.engines.host_memory import free_bytes

MIB = 1 << 20
SERVICE = "system.slice/steelyard.service"


@pytest.fixture
def limit(tmp_path, monkeypatch):
    """Give a machine with 1000 MiB free, and set what a group may use while it uses 100 MiB."""
    machine = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=1000 * MIB))
    monkeypatch.setattr(host_memory, "psutil", machine)
    monkeypatch.setattr(host_memory, "_CGROUP", tmp_path / "groups")
    monkeypatch.setattr(host_memory, "_OWN_CGROUP", tmp_path / "own")
    (tmp_path / "own").write_text(f"4:memory:/legacy\n0::/{SERVICE}\n", encoding="ascii")

    def set_limit(group: str, text: str) -> None:
        folder = tmp_path / "groups" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{text}\n", encoding="ascii")
        (folder / "memory.current").write_text(f"{100 * MIB}\n", encoding="ascii")
        (folder / "memory.stat").write_text("anon 1\ninactive_file 0\n", encoding="ascii")

    return set_limit


def test_the_limit_of_a_systemd_service_binds(limit):
    limit(SERVICE, str(500 * MIB))
    assert free_bytes() == 400 * MIB


@pytest.mark.parametrize(("outer", "inner", "free"), [(300, 500, 200), (500, 300, 200), (5000, "max", 1000)])
def test_of_groups_within_groups_the_tightest_binds(limit, outer, inner, free):
    limit("system.slice", str(outer * MIB))
    limit(SERVICE, inner if inner == "max" else str(inner * MIB))
    assert free_bytes() == free * MIB


def test_in_a_container_that_sees_only_its_own_group_that_one_binds(limit):
    limit("", str(700 * MIB))
    assert free_bytes() == 600 * MIB


@pytest.mark.parametrize("own", [None, "4:memory:/legacy\n", "0::/\n", "0::/gone\n"])
def test_where_no_group_of_version_2_can_be_read_the_machine_decides(tmp_path, limit, own):
    if own is None:
        (tmp_path / "own").unlink()
    else:
        (tmp_path / "own").write_text(own, encoding="ascii")
    assert free_bytes() == 1000 * MIB

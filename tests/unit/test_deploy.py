"""The files in deploy/ keep the promises that the server's start and end rely on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from steelyard.decide.server import EXIT_POISONED
from steelyard.decide.settings import SETTINGS, load_settings
from steelyard.hall.settings import BadSetting
from steelyard.shell.refusals import EXIT_REFUSED
from steelyard.web.process import ANSWER_TIMEOUT_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOKEN = "t" * 32


def unit() -> dict[str, list[str]]:
    """Return the unit's settings, each with all its values in order."""
    values: dict[str, list[str]] = {}
    for line in (DEPLOY / "semif-serve.service").read_text(encoding="utf-8").splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            values.setdefault(name, []).append(value)
    return values


def instructions() -> list[tuple[str, str]]:
    """Return the Containerfile's instructions with their arguments, continued lines joined."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], " ".join(line.split()[1:])) for line in lines]


def arguments_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in instructions() if instruction == name]


def assignments(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines)


def seconds(span: str) -> int:
    number = span.removesuffix("min").removesuffix("s")
    return int(number) * (60 if span.endswith("min") else 1)


def container_environment() -> dict[str, str]:
    return assignments(arguments_of("ENV")[0].split())


def example_lines() -> list[str]:
    return (DEPLOY / "semif-serve.env.example").read_text(encoding="utf-8").splitlines()


def test_a_refusal_stays_down_and_a_dead_engine_is_started_again():
    spared = {int(code) for code in unit()["RestartPreventExitStatus"][0].split()}
    assert unit()["Restart"] == ["on-failure"]
    assert EXIT_REFUSED in spared  # The number that the command line ends with.
    assert EXIT_POISONED not in spared


def test_a_server_that_dies_again_and_again_is_given_up():
    burst, within = int(unit()["StartLimitBurst"][0]), seconds(unit()["StartLimitIntervalSec"][0])
    assert burst * seconds(unit()["RestartSec"][0]) < within, "the limit would never be reached"


def test_a_stop_drains_with_one_signal_and_leaves_time_to_read_the_answers():
    assert getattr(signal, unit()["KillSignal"][0]) in {signal.SIGTERM, signal.SIGINT}
    assert unit()["KillMode"] == ["mixed"]
    assert seconds(unit()["TimeoutStopSec"][0]) > 2 * ANSWER_TIMEOUT_S  # It is no setting.


def test_the_unit_and_the_container_start_a_command_that_exists():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert Path(unit()["ExecStart"][0]).name in scripts
    assert Path(arguments_of("ENTRYPOINT")[0].strip('[]"')).name in scripts


def test_neither_runs_as_root():
    assert unit()["User"][0] not in {"root", "0"}
    user = arguments_of("USER")[-1].partition(":")[0]
    assert int(user) > 0
    assert [name for name, _ in instructions()].index("USER") > max(
        place for place, (name, _) in enumerate(instructions()) if name in {"FROM", "RUN"}
    )


def test_what_they_set_themselves_are_settings_that_the_server_takes():
    for environment in (assignments(unit()["Environment"]), container_environment()):
        load_settings({**environment, "SEMIF_API_TOKEN": TOKEN})


def test_the_container_listens_on_the_port_that_it_exposes():
    settings = load_settings({**container_environment(), "SEMIF_API_TOKEN": TOKEN})
    assert arguments_of("EXPOSE") == [str(settings.bind.port)]
    assert settings.bind.host == "0.0.0.0"


def test_what_is_copied_into_the_container_is_there():
    copied = [arguments for arguments in arguments_of("COPY") if not arguments.startswith("--from")]
    assert copied
    for arguments in copied:
        assert [source for source in arguments.split()[:-1] if not (ROOT / source).exists()] == []


def test_the_base_is_pinned_by_a_whole_version_and_no_digest_is_invented():
    assert re.fullmatch(r"BASE=python:\d+\.\d+\.\d+-[a-z-]+", arguments_of("ARG")[0])
    assert {source.split()[0] for source in arguments_of("FROM")} == {"${BASE}"}
    assert not re.search(r"sha256:[0-9a-f]", (DEPLOY / "Containerfile").read_text(encoding="utf-8"))


def test_no_file_holds_a_token():
    for path in DEPLOY.iterdir():
        for value in re.findall(r"SEMIF_API_TOKEN=(\S*)", path.read_text(encoding="utf-8")):
            with pytest.raises(BadSetting, match="SEMIF_API_TOKEN"):
                load_settings({"SEMIF_API_TOKEN": value})


def test_the_example_serves_once_its_token_is_put_in():
    given = assignments([line for line in example_lines() if line and not line.startswith("#")])
    assert load_settings({**given, "SEMIF_API_TOKEN": TOKEN}) == load_settings({"SEMIF_API_TOKEN": TOKEN})


def test_the_example_shows_every_setting_with_a_value_that_is_taken(tmp_path):
    shown = assignments([line.lstrip("#") for line in example_lines() if re.match(r"#?[A-Z_]+=", line)])
    table = tmp_path / "calibration.json"
    table.write_text('{"tickets": 1.5}', encoding="utf-8")
    load_settings({**shown, "SEMIF_API_TOKEN": TOKEN, "SEMIF_CALIBRATION": str(table)})
    served = set(SETTINGS.by_variable) - {"SEMIF_FAKE_SECONDS"}
    assert {name for name in shown if name.startswith("SEMIF_")} == served


def ready(status: int, *flags: str, **environ: str) -> int:
    """Return what ready.py says of a server whose health has *status*."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/health?ready" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Health) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        bind = f"0.0.0.0:{listener.server_port}"
        code = run_ready(*flags, SEMIF_BIND=bind, **environ)
        listener.shutdown()
        thread.join()
    return code


def run_ready(*flags: str, **environ: str) -> int:
    command = [sys.executable, str(DEPLOY / "ready.py"), *flags]
    return subprocess.run(command, env={**os.environ, **environ}, timeout=60, check=False).returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_ready_says_what_the_health_says(status, code):
    assert ready(status) == code
    assert ready(status, "--wait", MAINPID="999999999") == code, "it waited for a server that has ended"


def test_ready_says_no_where_nothing_listens():
    assert run_ready(SEMIF_BIND="127.0.0.1:1") == 1
    assert run_ready("--wait", SEMIF_BIND="[::1]:1", MAINPID="999999999") == 1


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed here")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    text = (DEPLOY / "semif-serve.service").read_text(encoding="utf-8")
    # The commands of the unit are not installed here; one that is stands in for them.
    (tmp_path / "semif-serve.service").write_text(re.sub(r"/opt/semif-serve/venv/bin/\S+", sys.executable, text))
    told = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "semif-serve.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in told.stderr.splitlines() if "semif-serve" in line] == []

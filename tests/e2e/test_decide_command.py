"""Starting and not starting: the command refuses in one sentence, and listens only when it can score."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.processes import SEMIF_SERVE, TOKEN, WAIT_S, environ_of, refusal, serving, started

from steelyard.decide.settings import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = {
    "SEMIF_API_TOKEN": ["", "short", "x" * 31, "with a space " * 4, "ü" * 40],
    "SEMIF_MODEL": ["", "no-such-model", "/no/such/file.gguf", "/no/such/folder"],
    "SEMIF_ENGINE": ["", "vllm"],
    "SEMIF_DEVICE": ["", "tpu"],
    "SEMIF_REVISION": [""],
    "SEMIF_BIND": ["", "8471", ":8471", "localhost:", "localhost:70000", "no.such.host.invalid:1", "a" * 70 + ":1"],
    "SEMIF_VRAM_CAP_GIB": ["", "0", "-1", "nan", "inf", "6"],
    "SEMIF_MAX_TOKENS": ["", "0", "-1", "1.5", "1e3", "٣", "1_000", " 1"],
    "SEMIF_MAX_DECISIONS": ["0"],
    "SEMIF_MAX_QUESTIONS": ["0"],
    "SEMIF_MAX_BODY_BYTES": ["0"],
    "SEMIF_MAX_QUEUE": ["0"],
    "SEMIF_CALIBRATION": ["", "/no/such/table.json", "/"],
    "SEMIF_BODY_TIMEOUT_S": ["0"],
    "SEMIF_FAKE_SECONDS": ["-1"],
    "SEMIF_THREADS": ["0"],
    "SEMIF_MODELS_DIR": [""],
    "SEMIF_MAX_TOKEN": ["5"],
    "SEMIF_VRAM_CAP": ["5"],
    "SEMIF_": ["x"],
}


def assert_one_sentence(code: int, stderr: str, name: str) -> None:
    assert code == 2, stderr
    assert "Traceback" not in stderr
    *log, sentence = stderr.splitlines()
    assert all(" INFO " in line for line in log), stderr
    assert sentence.startswith("Error: ")
    assert name in sentence


def test_every_setting_has_a_refusal_here() -> None:
    assert set(SETTINGS.by_variable) <= set(REFUSED)


@pytest.mark.parametrize(("name", "value"), [(name, values[-1]) for name, values in REFUSED.items()])
def test_a_bad_setting_refuses_the_start_in_one_sentence(name: str, value: str) -> None:
    assert_one_sentence(*refusal(environ={**environ_of(), name: value}), name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values[:-1]]
)
def test_every_bad_value_refuses_the_start_in_one_sentence(name: str, value: str) -> None:
    assert_one_sentence(*refusal(environ={**environ_of(), name: value}), name)


def test_the_token_is_required_and_a_bad_one_is_not_shown() -> None:
    assert_one_sentence(*refusal(environ=environ_of(api_token=None)), "SEMIF_API_TOKEN")
    code, stderr = refusal(environ=environ_of(api_token="secret-but-short"))
    assert_one_sentence(code, stderr, "SEMIF_API_TOKEN")
    assert "secret-but-short" not in stderr


@pytest.mark.parametrize(
    "table",
    ["", "[]", "{", '{"a": 0.04}', '{"a": 20.1}', '{"a": true}', '{"a": NaN}', '{"a": 1, "a": 1}', '{"a": "1"}'],
)
def test_a_bad_calibration_table_refuses_the_start(tmp_path: Path, table: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(table)
    assert_one_sentence(*refusal(environ=environ_of(calibration=path)), "SEMIF_CALIBRATION")


def test_a_flag_wins_over_its_variable_and_a_bad_one_is_named() -> None:
    environ = environ_of(max_queue="nonsense")
    code, stderr = refusal("--max-queue", "0", environ=environ)
    assert_one_sentence(code, stderr, "--max-queue")
    assert "SEMIF_MAX_QUEUE" in stderr
    with serving(command=[*SEMIF_SERVE, "--max-queue", "3", "--max-tokens", "99"], max_queue="nonsense") as server:
        assert (server.health()["queue"]["limit"], server.health()["max_tokens"]) == (3, 99)


def test_the_token_has_no_flag() -> None:
    code, stderr = refusal("--api-token", TOKEN, environ=environ_of(api_token=None))
    assert code == 2
    assert "No such option" in stderr


def test_every_setting_but_the_token_has_a_flag_of_its_name() -> None:
    finished = subprocess.run([*SEMIF_SERVE, "--help"], capture_output=True, text=True, check=True, timeout=WAIT_S)
    shown = set(re.findall(r"^  (--[a-z-]+) ", finished.stdout, re.MULTILINE))
    named = {"--" + name.removeprefix("SEMIF_").lower().replace("_", "-") for name in SETTINGS.by_variable}
    assert shown - {"--help"} == named - {"--api-token"} | {"--host", "--port"}


def test_hub_libraries_are_told_to_stay_offline_before_any_of_them_loads() -> None:
    """And to draw no bars into a log. The fake model needs none: what asks for one stops the start here."""
    program = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "huggingface_hub"}:
            sys.exit(f"{name} was asked for while HF_HUB_OFFLINE was {os.environ.get('HF_HUB_OFFLINE')}")

sys.meta_path.insert(0, Watch())
from steelyard import cli
from steelyard.decide import commands

def start_engine(settings, *, environ):
    sys.exit(f"the engine starts with OFFLINE {os.environ['HF_HUB_OFFLINE']}, DISABLE {os.environ['TQDM_DISABLE']}")

commands.start_engine = start_engine
cli.semif_serve()
"""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**environ_of(), "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert finished.stderr.splitlines()[-1] == "the engine starts with OFFLINE 1, DISABLE 1"


def test_what_kubernetes_injects_is_ignored() -> None:
    injected = {
        "service_host": "10.0.0.1",
        "service_port": "8471",
        "service_port_http": "8471",
        "port": "tcp://10.0.0.1:8471",
        "port_8471_tcp": "tcp://10.0.0.1:8471",
        "port_8471_tcp_proto": "tcp",
        "port_8471_tcp_port": "8471",
        "port_8471_tcp_addr": "10.0.0.1",
    }
    with serving(**injected) as server:
        assert server.request("GET", "/health").status == 200


def test_a_port_in_use_refuses_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, stderr = refusal(environ=environ_of(bind=f"127.0.0.1:{port}"))
    assert_one_sentence(code, stderr, "SEMIF_BIND")
    assert str(port) in stderr


def test_the_port_opens_only_after_the_warm_up() -> None:
    seconds = 0.5  # Of each of the warm-up's three calls.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    began = time.monotonic()
    environ = environ_of(bind=f"127.0.0.1:{port}", fake_seconds=seconds)
    with started(SEMIF_SERVE, environ) as (_process, log):
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=WAIT_S).close()
            except ConnectionRefusedError:
                assert time.monotonic() - began < WAIT_S
                time.sleep(0.02)  # It only spares the machine; the open port is what is waited for.
            else:
                break
        assert time.monotonic() - began >= 3 * seconds
        log.wait_for("Serving fake")


def test_an_engine_that_does_not_score_never_opens_the_port() -> None:
    program = """
from steelyard.decide import commands, loading
from steelyard.decide.engines.fake import FakeEngine

class Broken(FakeEngine):
    def prefill(self, tokens):
        return super().prefill(tokens[1:])  # The state is lost, as some library versions lose it.

loading.FakeEngine = Broken
commands.serve()
"""
    environ = environ_of()
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert finished.returncode == 2
    assert "Serving" not in finished.stderr
    assert "differently alone and after a shared state" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_it_serves_on_ipv6_too() -> None:
    with started(SEMIF_SERVE, environ_of(bind="[::1]:0")) as (_process, log):
        log.wait_for(r"Serving fake on http://\[::1\]:\d+")


def test_the_steelyard_command_serves_as_well() -> None:
    command = [SEMIF_SERVE[0].replace("semif-serve", "steelyard"), "decide", "serve"]
    with serving(command=command) as server:
        assert server.post().status == 200
        assert server.stop() == 0


def test_the_log_says_what_is_served_and_where_and_holds_no_token() -> None:
    with serving() as server:
        server.post()
        server.post(Authorization="Bearer wrong")
        assert server.stop() == 0
    assert TOKEN not in server.log.text
    assert "POST /decide 200" in server.log.text
    assert "POST /decide 401" in server.log.text


def test_what_the_environment_says_to_other_servers_is_no_setting_of_this_one() -> None:
    foreign = {"WEB_CONCURRENCY": "many", "FORWARDED_ALLOW_IPS": "*"}
    with serving(command=["env", *(f"{name}={value}" for name, value in foreign.items()), *SEMIF_SERVE]) as server:
        assert server.health()["status"] == "ok"

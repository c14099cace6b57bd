from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.decide.settings import SETTINGS, Settings, load_settings
from steelyard.hall.settings import Address, BadSetting

TOKEN = "0123456789abcdef0123456789ABCDEF"
POSITIVE = ("SEMIF_VRAM_CAP_GIB", "SEMIF_BODY_TIMEOUT_S")
INTEGERS = ("SEMIF_MAX_TOKENS", "SEMIF_MAX_DECISIONS", "SEMIF_MAX_QUESTIONS", "SEMIF_MAX_BODY_BYTES", "SEMIF_MAX_QUEUE")
INTEGER_TEXT = "must be an integer from 1 to 2147483647 in ASCII digits"
NUMBER_TEXT = "must be a finite number, not negative, in ASCII digits"
EMPTY_TEXT = "must not be empty; unset it to use the default"


def load(flags: Any = None, **environ: str) -> Settings:
    return load_settings({"SEMIF_API_TOKEN": TOKEN, "PATH": "/bin"} | environ, flags=flags)


def refusal(flags: Any = None, **environ: str) -> str:
    with pytest.raises(BadSetting) as caught:
        load(flags, **environ)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def field_of(variable: str) -> str:
    return variable.removeprefix("SEMIF_").lower()


def test_only_the_token_must_be_given():
    settings = load()
    assert settings.api_token == TOKEN
    assert settings.model == "Qwen/Qwen3.5-4B"
    assert settings.revision == "851bf6e806efd8d0a36b00ddf55e13ccb7b8cd0a"
    assert (settings.engine, settings.device) == ("auto", "cuda")
    assert settings.bind == Address("127.0.0.1", 8471)
    assert settings.vram_cap_gib is None
    assert (settings.max_tokens, settings.max_decisions, settings.max_questions) == (4096, 64, 400)
    assert (settings.max_body_bytes, settings.max_queue) == (1048576, 32)
    assert settings.calibration == {}
    assert (settings.body_timeout_s, settings.models_dir, settings.fake_seconds) == (30.0, None, 0.0)


def test_the_settings_never_show_the_token():
    assert TOKEN not in repr(load())


def test_without_a_token_the_refusal_says_how_to_make_one():
    with pytest.raises(BadSetting, match=r"^SEMIF_API_TOKEN is required: .* openssl rand -hex 32$"):
        load_settings({})
    assert load_settings({}, needs_token=False).api_token is None


@pytest.mark.parametrize("token", ["!" * 32, "~" * 200, TOKEN])
def test_a_token_is_visible_ascii_and_long_enough(token):
    assert load(SEMIF_API_TOKEN=token).api_token == token


@pytest.mark.parametrize(
    "token",
    ["", "x" * 31, "x" * 31 + " ", " " + "x" * 32, "x" * 32 + "\n", "x" * 32 + "\x7f", "é" * 32, "x" * 31 + "٣",
     "\t" * 32],
)  # fmt: skip
def test_a_bad_token_is_refused_and_not_quoted(token):
    text = refusal(SEMIF_API_TOKEN=token)
    assert text == "SEMIF_API_TOKEN must be at least 32 visible ASCII characters (codes 33 to 126), without spaces"
    with pytest.raises(BadSetting):
        load_settings({"SEMIF_API_TOKEN": token}, needs_token=False)


def test_the_token_has_no_flag():
    assert not SETTINGS.by_variable["SEMIF_API_TOKEN"].has_flag


@pytest.mark.parametrize("variable", INTEGERS)
@pytest.mark.parametrize(("text", "number"), [("1", 1), ("007", 7), ("2147483647", 2147483647)])
def test_a_count_is_an_integer_from_one(variable, text, number):
    assert getattr(load(**{variable: text}), field_of(variable)) == number


@pytest.mark.parametrize("variable", INTEGERS)
@pytest.mark.parametrize(
    "text",
    ["", "0", "00", "-1", "+1", " 1", "1 ", "1\n", "1.0", "1e3", "0x10", "1_000", "٣", "１", "²", "2147483648",
     "9" * 5000, "nan", "inf", "ten", "True"],
)  # fmt: skip
def test_a_count_that_is_none_is_refused(variable, text):
    assert refusal(**{variable: text}) == f"{variable} {INTEGER_TEXT}"


@pytest.mark.parametrize("variable", [*POSITIVE, "SEMIF_FAKE_SECONDS"])
@pytest.mark.parametrize(("text", "number"), [("1", 1.0), ("7.5", 7.5), ("1e2", 100.0), ("2E-1", 0.2), ("3.", 3.0)])
def test_a_quantity_is_a_finite_number(variable, text, number):
    assert getattr(load(**{variable: text}), field_of(variable)) == number


@pytest.mark.parametrize("variable", [*POSITIVE, "SEMIF_FAKE_SECONDS"])
@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", " 1", "1 ", "1\n", "nan", "NaN", "inf", "Infinity", "-inf", "1e999", "9" * 400, "٣", "１.５",
     "1,5", "1_0", "0x1p3", "half", ".5"],
)  # fmt: skip
def test_a_quantity_that_is_none_is_refused(variable, text):
    assert refusal(**{variable: text}) == f"{variable} {NUMBER_TEXT}"


@pytest.mark.parametrize("variable", POSITIVE)
@pytest.mark.parametrize("text", ["0", "0.0", "0e5", "1e-400"])
def test_a_cap_or_a_timeout_of_nothing_is_refused(variable, text):
    assert refusal(**{variable: text}) == f"{variable} must be a finite number greater than 0"


def test_a_fake_call_may_take_no_time():
    assert load(SEMIF_FAKE_SECONDS="0").fake_seconds == 0.0


@pytest.mark.parametrize("engine", ["auto", "torch", "llamacpp", "semif"])
def test_an_engine_is_one_of_four(engine):
    assert load(SEMIF_ENGINE=engine).engine == engine


@pytest.mark.parametrize("text", ["", "Auto", "llama.cpp", " auto", "vllm"])
def test_another_engine_is_refused(text):
    assert refusal(SEMIF_ENGINE=text) == "SEMIF_ENGINE must be one of auto, torch, llamacpp, semif"


def test_a_device_is_cuda_or_cpu():
    assert load(SEMIF_DEVICE="cpu").device == "cpu"
    for text in ("", "CPU", "cuda:0", "mps"):
        assert refusal(SEMIF_DEVICE=text) == "SEMIF_DEVICE must be one of cuda, cpu"


@pytest.mark.parametrize("variable", ["SEMIF_MODEL", "SEMIF_REVISION", "SEMIF_CALIBRATION", "SEMIF_MODELS_DIR"])
def test_an_empty_text_is_refused(variable):
    assert refusal(**{variable: ""}) == f"{variable} {EMPTY_TEXT}"


def test_the_default_revision_belongs_to_the_default_model():
    assert load(SEMIF_MODEL="fake").revision is None
    assert load(SEMIF_MODEL="fake", SEMIF_REVISION="abc").revision == "abc"
    assert load(SEMIF_REVISION="abc").revision == "abc"


def test_the_models_folder_is_the_one_that_pulling_fills(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert load(SEMIF_MODELS_DIR="/srv/models").models_dir == Path("/srv/models")
    assert load(SEMIF_MODELS_DIR="~/models").models_dir == Path("/home/someone/models")
    assert refusal(SEMIF_MODELS_DIR="~nobody-of-that-name/x") == (
        "SEMIF_MODELS_DIR names '~nobody-of-that-name/x', whose home directory is not known"
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [("0.0.0.0:80", Address("0.0.0.0", 80)), ("[::1]:8471", Address("::1", 8471)), ("[::]:0", Address("::", 0)),
     ("localhost:65535", Address("localhost", 65535))],
)  # fmt: skip
def test_an_address_is_host_and_port(text, address):
    assert load(SEMIF_BIND=text).bind == address


@pytest.mark.parametrize("text", ["", "8471", "localhost", ":8471", "::1:8471", "[]:1", "[::1]", "http://x:1"])
def test_an_address_without_either_is_refused(text):
    assert refusal(SEMIF_BIND=text).startswith("SEMIF_BIND must be ")


@pytest.mark.parametrize("port", ["", "65536", "-1", "+1", "1.0", " 1", "٣", "999999", "http"])
def test_a_port_is_an_integer_to_65535(port):
    text = "must be an integer from 0 to 65535 in ASCII digits"
    assert refusal(SEMIF_BIND=f"x:{port}") == f"SEMIF_BIND {text}"
    assert refusal({"port": port}) == f"--port {text}"


def test_host_and_port_flags_win_over_the_bind_flag_and_this_over_the_variable():
    environ = {"SEMIF_BIND": "env:1"}
    assert load({"bind": "flag:2"}, **environ).bind == Address("flag", 2)
    assert load({"bind": "flag:2", "port": "3"}, **environ).bind == Address("flag", 3)
    assert load({"host": "::", "port": None}, **environ).bind == Address("::", 1)
    assert refusal({"host": ""}) == "--host must not be empty"


def test_a_flag_wins_and_a_flag_that_is_not_given_does_not():
    assert load({"max_tokens": "10", "model": None}, SEMIF_MAX_TOKENS="20", SEMIF_MODEL="fake").max_tokens == 10
    assert load({"max_tokens": None}, SEMIF_MAX_TOKENS="20").max_tokens == 20
    # The variable is overruled, so what it says does not matter.
    assert load({"max_tokens": "10"}, SEMIF_MAX_TOKENS="x").max_tokens == 10


@pytest.mark.parametrize("text", ["", "0", "-5"])
def test_a_bad_flag_is_named_with_its_variable(text):
    assert refusal({"max_tokens": text}) == f"--max-tokens (SEMIF_MAX_TOKENS) {INTEGER_TEXT}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SEMIF_VRAM_CAP_GB", "; did you mean SEMIF_VRAM_CAP_GIB?"),
        ("SEMIF_MAX_TOKEN", "; did you mean SEMIF_MAX_TOKENS?"),
        ("SEMIF_Max_Tokens", "; remove it"),
        ("SEMIF_XYZZY_PLUGH", "; remove it"),
    ],
)
def test_an_unknown_name_is_refused_with_a_hint(name, hint):
    assert refusal(**{name: "1"}) == f"{name} is not a setting of this server{hint}"


def test_an_unknown_name_is_quoted_short():
    assert refusal(**{"SEMIF_" + "X" * 1000: "1"}).startswith("SEMIF_" + "X" * 57 + "… is not a setting")


@pytest.mark.parametrize("name", ["semif_max_tokens", "SEMIFX", "XSEMIF_MAX_TOKENS", "SEMI_F"])
def test_names_without_our_prefix_are_not_ours(name):
    assert load(**{name: "x"}) == load()


@pytest.mark.parametrize(
    "name",
    ["SEMIF_SERVICE_HOST", "SEMIF_SERVICE_PORT", "SEMIF_SERVICE_PORT_HTTP", "SEMIF_PORT", "SEMIF_PORT_8471_TCP",
     "SEMIF_PORT_8471_TCP_PROTO", "SEMIF_PORT_8471_TCP_PORT", "SEMIF_PORT_8471_TCP_ADDR", "SEMIF_PORT_53_UDP_ADDR"],
)  # fmt: skip
def test_what_kubernetes_injects_is_ignored(name):
    assert load(**{name: "tcp://10.0.0.1:8471"}) == load()


@pytest.mark.parametrize("name", ["SEMIF_PORT_8471", "SEMIF_PORT_X_TCP", "SEMIF_SERVICE", "SEMIF_SERVICE_HOSTS"])
def test_what_kubernetes_would_not_inject_is_refused(name):
    assert "is not a setting of this server" in refusal(**{name: "1"})


@pytest.fixture
def calibrated(tmp_path):
    """Write a calibration file and give its path."""

    def write(content: str | bytes) -> str:
        path = tmp_path / "calibration.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def test_a_calibration_file_is_read_at_the_start(calibrated):
    path = calibrated(json.dumps({"triage": 1.235, "größe": 20}))
    assert load(SEMIF_CALIBRATION=path).calibration == {"triage": 1.235, "größe": 20.0}
    assert load({"calibration": path}).calibration == {"triage": 1.235, "größe": 20.0}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is not JSON: Expecting value"),
        ("{'triage': 1}", "is not JSON: "),
        ("\ufeff{}", "is not JSON: "),
        ("[1]", "must be a JSON object"),
        ('{"a": 1, "a": 2}', "repeats the key 'a'"),
        ('{"a": true}', "gives 'a' a temperature that is not a number from 0.05 to 20"),
        ('{"a": NaN}', "gives 'a' a temperature"),
        ('{"a": -Infinity}', "gives 'a' a temperature"),
        ('{"a": 0.049}', "gives 'a' a temperature"),
        ('{"a": 21}', "gives 'a' a temperature"),
        ('{"a": 1' + "0" * 400 + "}", "gives 'a' a temperature"),
        ('{"a": ' + "9" * 10_000 + "}", "gives 'a' a temperature"),
        (b'{"a\xff": 1}', "is not UTF-8"),
        ('{"a": ' * 100_000, "is nested too deep"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_calibration_file_that_cannot_be_used_refuses_the_start(calibrated, content, reason):
    text = refusal(SEMIF_CALIBRATION=calibrated(content))
    assert text.startswith("SEMIF_CALIBRATION names ")
    assert f"which {reason}" in text
    assert len(text) < 300


def test_a_calibration_file_that_is_not_there_refuses_the_start(tmp_path):
    assert refusal(SEMIF_CALIBRATION=str(tmp_path / "absent.json")).endswith(
        "which cannot be read: No such file or directory"
    )
    assert refusal({"calibration": str(tmp_path)}).endswith("which cannot be read: Is a directory")


def test_every_setting_has_a_variable_a_flag_and_a_meaning():
    assert set(SETTINGS.by_variable) >= {
        "SEMIF_API_TOKEN", "SEMIF_MODEL", "SEMIF_REVISION", "SEMIF_ENGINE", "SEMIF_DEVICE", "SEMIF_BIND",
        *INTEGERS, *POSITIVE, "SEMIF_CALIBRATION",
    }  # fmt: skip
    for variable, setting in SETTINGS.by_variable.items():
        assert setting.flag == "--" + field_of(variable).replace("_", "-")
        assert setting.meaning.endswith(".")


def test_a_shown_default_is_the_default():
    for setting in SETTINGS.settings:
        if setting.default is not None and setting.default != {}:
            assert setting.parse(setting.shown_default) == setting.default


@pytest.mark.parametrize("variable", SETTINGS.by_variable)
def test_an_empty_value_is_a_bad_one_for_every_setting(variable):
    setting = SETTINGS.by_variable[variable]
    assert refusal(**{variable: ""}).startswith(f"{variable} must ")
    if setting.has_flag:
        assert refusal({setting.name: ""}).startswith(f"{setting.flag} ({variable}) must ")


@pytest.mark.parametrize("text", ["0", "513", "100000", "2147483647", "-1", "", "two"])
def test_more_threads_than_llama_cpp_takes_are_refused(text):
    with pytest.raises(BadSetting, match=r"^SEMIF_THREADS must be an integer from 1 to 512"):
        load_settings({"SEMIF_THREADS": text}, needs_token=False)


@pytest.mark.parametrize("variable", ["SEMIF_MODEL", "SEMIF_REVISION", "SEMIF_MODELS_DIR", "SEMIF_CALIBRATION"])
def test_a_text_that_no_answer_could_show_is_refused(variable):
    with pytest.raises(BadSetting, match=f"^{variable} must be UTF-8 text"):
        load_settings({variable: "m\udcff.gguf"}, needs_token=False)

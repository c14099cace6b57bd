from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.embed.settings import DEFAULT_MODEL, load_settings
from steelyard.hall.settings import Address, BadSetting

TOKEN = {"STEELYARD_EMBED_API_TOKEN": "t" * 32}


def test_only_the_token_is_required():
    settings = load_settings(TOKEN)
    assert (settings.model, settings.bind) == (DEFAULT_MODEL, Address("127.0.0.1", 8472))
    assert (settings.max_batch_tokens, settings.max_batch_rows, settings.max_inputs) == (1024, 32, 2048)
    with pytest.raises(BadSetting, match="STEELYARD_EMBED_API_TOKEN is required"):
        load_settings({})


def test_the_token_is_not_shown():
    assert "tttt" not in repr(load_settings(TOKEN))


def test_flags_win():
    settings = load_settings(
        TOKEN | {"STEELYARD_EMBED_MAX_QUEUE": "3", "STEELYARD_EMBED_MODELS_DIR": "/m"},
        flags={"max_queue": "4", "port": "1", "host": None},
    )
    assert (settings.max_queue, settings.models_dir, settings.bind) == (4, Path("/m"), Address("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("name", "text"),
    [("MAX_INPUTS", "2049"), ("MAX_INPUTS", "0"), ("MAX_BATCH_ROWS", "0"), ("THREADS", "513"), ("MODEL", "")],
)
def test_a_value_that_cannot_be_used_names_its_variable(name, text):
    with pytest.raises(BadSetting, match=f"^STEELYARD_EMBED_{name} must"):
        load_settings(TOKEN | {f"STEELYARD_EMBED_{name}": text})


def test_a_misspelt_name_is_refused():
    with pytest.raises(BadSetting, match="did you mean STEELYARD_EMBED_THREADS"):
        load_settings(TOKEN | {"STEELYARD_EMBED_THREAD": "1"})

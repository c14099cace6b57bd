"""The GPU runbook explains every refusal of the torch path, and no refusal that is gone."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard.decide.api.errors import STATUS_OF
from steelyard.decide.server import EXIT_POISONED
from steelyard.web.process import EXIT_FORCED

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "gpu.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "steelyard"
MODULES = (
    "decide/loading.py",
    "decide/startup.py",
    "decide/engines/card_memory.py",
    "decide/engines/gguf_files.py",
    "decide/engines/semif.py",
    "decide/engines/torch_engine.py",
    "decide/engines/torch_loading.py",
    "decide/engines/torch_reading.py",
    "decide/engines/torch_tokenizer.py",
    "web/process.py",
)
# What these modules raise to refuse a start; other errors of theirs answer a request.
REFUSALS = {"BadSetting", "ImportError", "StartRefused", "ValueError"}


def sentences_in(source: str) -> list[str]:
    """Return the texts of all refusals that *source* raises, with … for what is filled in."""
    raised = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    calls = [call for call in raised if isinstance(call, ast.Call) and ast.unparse(call.func) in REFUSALS]
    return [text_of(part) for call in calls for part in parts_of(call)]


def parts_of(call: ast.Call) -> Sequence[ast.expr]:
    """Return the texts among which *call* chooses its message."""
    message = call.args[0]
    choices = message.values if isinstance(message, ast.BoolOp) else [message]
    texts = [choice for choice in choices if isinstance(choice, ast.Constant | ast.JoinedStr)]
    assert texts, f"no text can be read here: {ast.unparse(call)}"
    return texts


def text_of(expression: ast.expr) -> str:
    pieces = expression.values if isinstance(expression, ast.JoinedStr) else [expression]
    return "".join(str(piece.value) if isinstance(piece, ast.Constant) else "…" for piece in pieces)


def rows() -> list[str]:
    """Return the first cells of the tables of refusals."""
    section = PAGE.split("## What each refusal means")[1].split("### How the process ended")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def row_for(sentence: str) -> str | None:
    """Return the longest row with which *sentence* begins."""
    return max((row for row in rows() if sentence.startswith(row)), key=len, default=None)


# The shared refusals begin with the room's variable, which is filled in.
SENTENCES = [
    re.sub("^…: ", "SEMIF_BIND: ", sentence)
    for module in MODULES
    for sentence in sentences_in((SOURCE / module).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_refusal_has_its_row(sentence):
    assert row_for(sentence) is not None


def test_every_row_is_a_refusal_that_exists_and_has_it_alone():
    assert len(rows()) > 25
    assert sorted(rows()) == sorted({str(row_for(sentence)) for sentence in SENTENCES})


def test_a_new_refusal_would_be_seen():
    source = 'def f(x):\n    raise ValueError(f"SEMIF_NEW is {x}, which is new")\n'
    assert sentences_in(source) == ["SEMIF_NEW is …, which is new"]
    assert row_for(sentences_in(source)[0]) is None


def test_a_refusal_whose_text_cannot_be_read_would_be_seen():
    with pytest.raises(AssertionError, match="no text can be read"):
        sentences_in("raise StartRefused(str(error))")


def test_every_exit_code_and_every_error_of_a_running_server_is_explained():
    ends = PAGE.split("### How the process ended")[1]
    for code in (0, EXIT_POISONED, 2, EXIT_FORCED):
        assert f"\n| {code} | " in ends
    failures = {(status, error.code) for error, status in STATUS_OF.items() if status >= 500}
    for status, name in failures | {(429, "busy"), (503, "not_ready")}:
        assert f"\n| {status} `{name}` | " in ends

from __future__ import annotations

import os
from array import array

import pytest

from steelyard.embed import loading, startup
from steelyard.embed.domain.ports import Traits
from steelyard.embed.runtimes.fake import FakeRuntime
from steelyard.embed.settings import load_settings
from steelyard.embed.startup import StartRefused, check_warm_up, gap, start_runtime
from steelyard.hall.settings import BadSetting


def settings_of(**values):
    environ = {"STEELYARD_EMBED_API_TOKEN": "t" * 32, "STEELYARD_EMBED_MODEL": "fake"}
    return load_settings(environ | {f"STEELYARD_EMBED_{name.upper()}": str(value) for name, value in values.items()})


class Odd(FakeRuntime):
    """The fake runtime, whose vectors are changed by *change*, a function of the vectors of one call."""

    def __init__(self, change) -> None:
        super().__init__()
        self.change = change
        self.is_closed = False

    def embed(self, rows):
        return self.change(super().embed(rows))

    def close(self):
        self.is_closed = True


def start(monkeypatch, runtime, **values):
    monkeypatch.setattr(loading, "FakeRuntime", lambda **_: runtime)
    return start_runtime(settings_of(**values), environ=os.environ)


def moved(vectors):
    """Return the vectors, moved a little where they are several."""
    return [array("f", [x + 0.01 * (len(vectors) > 1) for x in vector]) for vector in vectors]


def test_the_fake_starts():
    assert start_runtime(settings_of(), environ={}).identity.model == "fake"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda vectors: [vector[:-1] for vector in vectors], "vectors of 31 components, not of 32"),
        (
            lambda vectors: [array("f", [2 * x for x in vector]) for vector in vectors],
            r"have the length 2\.0000, not 1",
        ),
        (lambda vectors: [array("f", [float("nan")] * 32) for _ in vectors], "does not embed: .* not finite"),
        (moved, "moves by 1.0e-02 with its neighbours.*STEELYARD_EMBED_MAX_BATCH_ROWS=1"),
    ],
)
def test_a_model_that_is_not_what_it_says_is_refused_and_unloaded(monkeypatch, change, message):
    runtime = Odd(change)
    with pytest.raises(StartRefused, match=message):
        start(monkeypatch, runtime)
    assert runtime.is_closed


def test_a_model_whose_vectors_move_can_be_served_row_by_row(monkeypatch):
    assert start(monkeypatch, Odd(moved), max_batch_rows=1)


def test_a_pulled_model_must_give_its_known_answer(monkeypatch):
    monkeypatch.setitem(startup._ANSWERS, "fake", [1.0, 0.0])
    with pytest.raises(StartRefused, match="another vector than it should"):
        check_warm_up(FakeRuntime(), max_rows=8)


def test_a_stated_tolerance_is_the_runtimes_own():
    runtime = Odd(moved)
    runtime.traits = Traits(name="odd", is_model=False, tolerance=0.02)
    check_warm_up(runtime, max_rows=8)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(2, "No such file or directory"), StartRefused, "cannot be read: No such file or directory"),
        (ImportError("not installed"), StartRefused, "cannot be served: not installed"),
        (RuntimeError("two\nlines"), StartRefused, "cannot be served: two lines"),
        (BadSetting("a sentence"), BadSetting, "^a sentence$"),
    ],
)
def test_whatever_loading_raises_is_one_sentence(monkeypatch, error, kind, message):
    def fail(*_arguments, **_settings):
        raise error

    monkeypatch.setattr(startup, "build_runtime", fail)
    with pytest.raises(kind, match=message):
        start_runtime(settings_of(), environ={})


def test_a_gap_is_the_largest_difference_and_does_not_hide_nan():
    assert gap([1.0, 2.0], [1.5, 2.25]) == 0.5
    assert gap([], []) == 0.0
    assert gap([float("nan"), 2.0], [1.0, 2.0]) != gap([1.0], [1.0])

"""Whether a hybrid model reads the recurrent states that its cache keeps.

transformers fills the states of some models (Jamba, Bamba) and ignores them where more than one token follows. Their
attention layers still see the prefix, so a shared answer can come so near the direct one that no tolerance tells them
apart, least of all BF16's.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_KINDS = ("conv_states", "recurrent_states")


def ignored_states(cache: Any, *, score: Callable[[Any], list[list[float]]]) -> list[str]:
    """Return the kinds of state in *cache* that do not move *score*(cache), to the last bit, when they are zeroed.

    Call it where tensors may be changed in place; *cache* stays as it is.
    """
    zeroed = {kind: without for kind in _KINDS if (without := _without(cache, kind)) is not None}
    answer = score(cache) if zeroed else []
    return [kind for kind, without in zeroed.items() if score(without) == answer]


def _without(cache: Any, kind: str) -> Any | None:
    """Return a copy of *cache* with every state of *kind* zeroed; None where it has none."""
    zeroed = copy.deepcopy(cache)
    states = [state for layer in zeroed.layers for state in getattr(layer, kind, {}).values() if state is not None]
    for state in states:
        state.zero_()
    return zeroed if states else None

"""A `tokenizer.json`, read by Hugging Face's library, with its truncation and padding overruled."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.embed.domain.ports import Tokens


class JsonTokenizer:
    """The tokenizer in *content*, the text of a tokenizer.json; raises ValueError where it is none.

    Files in the wild cut at 128 tokens and pad to it without a word, so both settings are replaced.
    """

    def __init__(self, content: str, *, max_tokens: int) -> None:
        self._whole = _read(content)
        self._cutting = _read(content)
        self._cutting.enable_truncation(max_tokens)

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return all tokens of each text, special tokens added; texts that name special tokens are read as such."""
        return [array("i", encoding.ids) for encoding in self._whole.encode_batch_fast(list(texts))]

    def cut(self, text: str) -> Tokens:
        """Return the first tokens of *text*, special tokens included, as many as the model takes."""
        return array("i", self._cutting.encode(text).ids)


def _read(content: str) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # The library raises Exception itself.
        raise ValueError(f"is not a tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer

"""The tokenizer and chat template inside a GGUF file."""

from __future__ import annotations

import ctypes as c
import re
from typing import TYPE_CHECKING

from steelyard.decide.engines.chat_template import ChatTemplate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steelyard.decide.domain.ports import Message

_BLOCK_CHARACTERS = 16384
# Bits of llama.cpp's token attributes.
_SPECIAL = 1 << 3 | 1 << 4  # Control and user-defined tokens, which are found in a text before it is tokenized.
_STRIPS = 1 << 7 | 1 << 8  # Tokens that take in the white space to their left or right.


class LlamaTokenizer:
    """The tokenizer and chat template inside a GGUF file."""

    def __init__(self, library: c.CDLL, model: int) -> None:
        """Read the template; raises ValueError where the file has none that can be used."""
        self._library = library
        self._vocabulary = library.llama_model_get_vocab(model)
        source = library.llama_model_chat_template(model, None)
        if source is None:
            raise ValueError("the GGUF file holds no chat template; decisions need an instruction-tuned chat model")
        self._markers = self._compile_markers()
        self._template = ChatTemplate(source.decode("utf-8"), special_tokens=self._special_tokens())

    @property
    def can_pad(self) -> bool:
        """Tell whether the vocabulary has a padding or an end-of-sequence token."""
        return bool(max(self._library.llama_vocab_pad(self._vocabulary), self._eos()) >= 0)

    def render(self, messages: Sequence[Message]) -> str:
        """Return *messages* in the file's own chat template."""
        return self._template.render(messages)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of *text*, none added."""
        return [token for block in self._blocks(text) for token in self._tokens_of(block)]

    def _blocks(self, text: str) -> Iterator[str]:
        """Yield *text* in blocks that tokenize as they would together, each but the first from a marker on.

        llama.cpp's time grows with the square of the number of markers in a text: a megabyte of them would take a
        quarter of a minute. A marker is a token of its own whatever stands beside it, so blocks may begin there.
        """
        start = 0
        for marker in self._markers.finditer(text) if len(text) > _BLOCK_CHARACTERS and self._markers else ():
            if marker.start() - start >= _BLOCK_CHARACTERS:
                yield text[start : marker.start()]
                start = marker.start()
        yield text[start:]

    def _tokens_of(self, text: str) -> list[int]:
        raw = text.encode("utf-8")
        room = len(raw) + 1  # No token is shorter than a byte.
        tokens = (c.c_int32 * room)()
        count = self._library.llama_tokenize(self._vocabulary, raw, len(raw), tokens, room, False, True)
        if count < 0:
            raise RuntimeError(f"llama.cpp could not tokenize a prompt of {len(raw)} bytes")
        return tokens[:count]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens*, bytes that are not UTF-8 as U+FFFD."""
        ids = (c.c_int32 * len(tokens))(*tokens)
        needed = self._detokenize(ids, None, 0)
        buffer = c.create_string_buffer(max(-needed, 1))
        count = self._detokenize(ids, buffer, len(buffer))
        return buffer.raw[:count].decode("utf-8", errors="replace")

    def _detokenize(self, ids: c.Array[c.c_int32], buffer: c.Array[c.c_char] | None, size: int) -> int:
        count = self._library.llama_detokenize(self._vocabulary, ids, len(ids), buffer, size, False, True)
        return int(count)

    def _eos(self) -> int:
        return int(self._library.llama_vocab_eos(self._vocabulary))

    def _compile_markers(self) -> re.Pattern[str] | None:
        """Return what matches the control tokens, longest first; None where a token takes in the spaces beside it."""
        attributes, text_of = self._library.llama_vocab_get_attr, self._library.llama_vocab_get_text
        texts = []
        for token in range(self._library.llama_vocab_n_tokens(self._vocabulary)):
            attribute = attributes(self._vocabulary, token)
            if attribute & _STRIPS:
                return None
            if attribute & _SPECIAL:
                texts.append(text_of(self._vocabulary, token).decode("utf-8", errors="replace"))
        ordered = sorted(filter(None, texts), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def _special_tokens(self) -> dict[str, str]:
        tokens = {"bos_token": int(self._library.llama_vocab_bos(self._vocabulary)), "eos_token": self._eos()}
        text_of = self._library.llama_vocab_get_text
        return {n: text_of(self._vocabulary, t).decode("utf-8") if t >= 0 else "" for n, t in tokens.items()}

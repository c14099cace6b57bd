"""A transformers tokenizer with its chat template, as the scorers ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.decide.domain.ports import Message


class TorchTokenizer:
    """The tokenizer that came with the model."""

    def __init__(self, tokenizer: Any) -> None:
        """Take a transformers *tokenizer*; raises ValueError where it has no chat template."""
        if tokenizer.chat_template is None:
            raise ValueError("the model has no chat template; decisions need an instruction-tuned chat model")
        self.native = tokenizer

    @property
    def can_pad(self) -> bool:
        """Tell whether the vocabulary has a padding or an end-of-sequence token."""
        return self._pad() is not None

    @property
    def pad_token(self) -> int:
        """The token that fills up the shorter rows of a batch; nothing ever reads what follows it."""
        return self._pad() or 0

    @property
    def largest_token(self) -> int:
        """The largest number of a token; a vocabulary with holes has fewer tokens than that."""
        return int(max(self.native.get_vocab().values()))

    def render(self, messages: Sequence[Message]) -> str:
        """Return *messages* in the model's own chat template."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        text = self.native.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, enable_thinking=False)
        return str(text)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of *text*, none added."""
        return list(self.native.encode(text, add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens*, special tokens too, and no space tidied away."""
        return str(self.native.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _pad(self) -> int | None:
        pad, eos = self.native.pad_token_id, self.native.eos_token_id
        token = eos if pad is None else pad
        return None if token is None else int(token)

"""A model's own chat template, rendered as the transformers library renders it.

Templates come with the weights, so they run in Jinja's sandbox. The environment's options and the three names that
templates call are those of `transformers.utils.chat_template_utils`.
"""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Never

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.decide.domain.ports import Message


class ChatTemplate:
    """A compiled template; *special_tokens* are the names that it may print, such as `bos_token`."""

    def __init__(self, source: str, *, special_tokens: Mapping[str, str]) -> None:
        """Compile *source*; raises ValueError where it is no template."""
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
        self._special_tokens = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ValueError(f"the model's chat template cannot be read: {error}") from None

    def render(self, messages: Sequence[Message]) -> str:
        """Return the prompt, generation prompt added and thinking switched off; raises RuntimeError."""
        try:
            return self._template.render(
                messages=[{"role": message.role, "content": message.content} for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=True,
                enable_thinking=False,
                **self._special_tokens,
            )
        except jinja2.TemplateError as error:
            raise RuntimeError(f"the model's chat template failed: {error}") from None


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> Never:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().astimezone().strftime(pattern)

from __future__ import annotations

import pytest

from steelyard.decide.domain.ports import Message
from steelyard.decide.engines.chat_template import ChatTemplate

MESSAGES = [Message("system", "Judge."), Message("user", 'She said "é < 🐈"')]


def render(source: str, **special_tokens: str) -> str:
    return ChatTemplate(source, special_tokens=special_tokens).render(MESSAGES)


def test_a_template_sees_the_messages_and_its_special_tokens():
    source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m['content'] }}{% endfor %}"
    assert render(source, bos_token="<s>") == '<s>[system]Judge.[user]She said "é < 🐈"'


def test_the_generation_prompt_is_asked_for_and_thinking_is_off():
    assert render("{{ add_generation_prompt }} {{ enable_thinking }}") == "True False"


def test_tools_and_documents_are_there_and_none():
    assert render("{{ tools is none }} {{ documents is none }}") == "True True"


def test_a_name_that_is_not_given_is_undefined():
    assert render("{% if not xml_tools is defined %}absent{% endif %}") == "absent"


def test_blocks_leave_no_lines_behind():
    assert render("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc"


def test_loops_can_be_left():
    assert render("{% for m in messages %}{{ m.role }}{% break %}{% endfor %}") == "system"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("tojson", '"She said \\"é < 🐈\\""'),
        ("tojson(ensure_ascii=true)", '"She said \\"\\u00e9 < \\ud83d\\udc08\\""'),
    ],
)
def test_json_is_written_without_html_escapes(call, text):
    assert render("{{ messages[1].content | " + call + " }}") == text


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("tojson", '{"b": 1, "a": 2}'),
        ("tojson(sort_keys=true)", '{"a": 2, "b": 1}'),
        ("tojson(separators=(',', ':'))", '{"b":1,"a":2}'),
        ("tojson(indent=1)", '{\n "b": 1,\n "a": 2\n}'),
    ],
)
def test_json_takes_the_options_that_transformers_gives_it(call, text):
    assert render("{{ {'b': 1, 'a': 2} | " + call + " }}") == text


def test_a_template_can_ask_for_the_date():
    year = render("{{ strftime_now('%Y') }}")
    assert len(year) == 4
    assert int(year) >= 2026


def test_a_template_that_refuses_the_messages_is_a_failure_in_its_own_words():
    with pytest.raises(RuntimeError, match=r"^the model's chat template failed: System role not supported$"):
        render("{{ raise_exception('System role not supported') }}")


@pytest.mark.parametrize("source", ["{{ messages[0].nothing.at.all }}", "{{ ''.__class__.__mro__ }}"])
def test_a_template_that_reaches_for_what_it_may_not_have_fails(source):
    with pytest.raises(RuntimeError, match=r"^the model's chat template failed: "):
        render(source)


def test_a_template_cannot_change_what_it_is_given():
    with pytest.raises(RuntimeError, match="the model's chat template failed"):
        render("{{ messages.append(1) }}")


@pytest.mark.parametrize("source", ["{% if %}", "{{ ", "{% nonsense %}", "{% for %}{% endfor %}"])
def test_a_text_that_is_no_template_is_refused(source):
    with pytest.raises(ValueError, match=r"^the model's chat template cannot be read: "):
        render(source)

"""Whatever callers call things, a report shows it as text."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from markdown_it import MarkdownIt
from tests.unit.hub.reports.comparisons import cases, completed
from tests.unit.hub.reports.pages import read_page

from steelyard.hub.reports.formats import FORMATS, as_json
from steelyard.hub.reports.markdown import as_markdown
from steelyard.hub.reports.page import as_html
from steelyard.hub.reports.reading import report_of
from steelyard.hub.reports.text import as_text

HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\"' onload='x' --></style></title></svg><b>",
    "{{ 7 * 7 }}{% raw %}",
    "| a | b |\n|---|---|\n| c | d |",
    "a\r\n\n# heading\n\n- item\n\n    code\n",
    "```\ncode\n``` `x` ~~~",
    "[a](javascript:alert(1)) ![b](http://x/y) <http://x.y> http://x.y www.x.y [c]: /u",
    "*a* _b_ **c** __d__ ~e~ ~~f~~ $g$ &lt; &#60; \\* x_y_z",
    "\x1b[31mred\x1b[0m\x07\x9b31m\u202egnp.exe\u2066\u200b",
    "1. one",
    "12345) one",
    "- - -",
    "+",
    "===",
    "# x #",
    "   led by spaces",
    "a\ud800b",
    "ends in a backslash \\",
    "> quoted",
]
_MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_PLAIN = {
    "heading_open", "heading_close", "inline", "paragraph_open", "paragraph_close", "bullet_list_open",
    "bullet_list_close", "list_item_open", "list_item_close", "table_open", "table_close", "thead_open", "thead_close",
    "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close", "text",
    "text_special",
}  # fmt: skip


def renamed(value: Any, text: str) -> Any:
    """Return what the API gave with *text* for everything that a caller or another program chose."""
    if isinstance(value, list):
        return [renamed(item, text) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: text if isinstance(item, str) and name in CHOSEN else renamed(item, text) for name, item in value.items()
    }


CHOSEN = {
    "query", "chunk_id", "document_id", "slug", "index_ref", "source", "revision", "model", "error_code", "detail",
    "code", "title", "gateway_request_id", "served_model", "query_prompt", "consumer_revision_sha256",
}  # fmt: skip


def report(text: str) -> Any:
    data = [renamed(case, text) | {"labels": {text: 1}} for case in cases()]
    return report_of(renamed(completed(), text) | {"error_code": text}, data)


@pytest.mark.parametrize("text", HOSTILE)
def test_html_has_the_same_elements_whatever_its_texts_are(text):
    plain, hostile = read_page(as_html(report("x"))), read_page(as_html(report(text)))
    assert hostile.shape() == plain.shape()
    names = [e.attributes.get("class", "") for e in hostile.elements]
    assert names == [e.attributes.get("class", "") for e in plain.elements]


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_has_the_same_parts_whatever_its_texts_are(text):
    plain, hostile = (_MARKDOWN.parse(as_markdown(report(each))) for each in ("x", text))
    assert [token.type for token in hostile] == [token.type for token in plain]
    kinds = {kind.type for token in hostile for kind in [token, *(token.children or [])]}
    assert kinds <= _PLAIN


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.isprintable()])
def test_markdown_and_html_show_the_text_letter_for_letter(text):
    page = read_page(as_html(report(text)))
    assert next(e.text for e in page.elements if e.tag == "h3").removesuffix("\n") == text
    tokens = _MARKDOWN.parse(as_markdown(report(text)))
    heading = next(after for token, after in pairwise(tokens) if token.tag == "h3")
    shown = "".join(child.content for child in heading.children or [])
    assert shown == text.strip()


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_steers_a_terminal_or_turns_the_reading_direction(text, form):
    lines = FORMATS[form](report(text)).split("\n")
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_has_the_same_lines_whatever_its_texts_are(text):
    sections = [line for line in as_text(report(text)).split("\n") if line and set(line) <= {"-"}]
    assert len(sections) == 8
    assert max(map(len, as_text(report(text)).split("\n"))) <= 120


@pytest.mark.parametrize("text", HOSTILE)
def test_json_is_ascii_and_exact(text):
    written = as_json(report(text))
    assert written.isascii()
    assert all(line.isprintable() for line in written.split("\n"))
    read = json.loads(written)
    assert read["critical_regressions"][0]["query"] == text
    assert read["critical_regressions"][0]["current"]["results"][0] == {
        "rank": 1, "chunk_id": text, "document_id": text, "score": 1.0, "grade": 1,
    }  # fmt: skip


def test_a_long_text_is_cut_where_people_read_and_whole_in_json():
    long = "q" * 10_000
    told = report(long)
    assert json.loads(as_json(told))["losses"][0]["query"] == long
    for form in (as_text, as_markdown, as_html):
        assert "q" * 1001 not in form(told)

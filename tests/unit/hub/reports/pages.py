"""Reads an HTML page strictly enough to see what is markup in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "line", "circle", "rect"}


@dataclass
class Element:
    """A start tag with its attributes, and the text up to the next tag."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """The elements in the order of the page; raises AssertionError where a tag is not closed in its place."""

    elements: list[Element] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice: {attrs}"
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID or tag == "rect":
            self.unclosed.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in _VOID
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self.unclosed.pop() == tag

    def handle_data(self, data):
        if self.elements:
            self.elements[-1].text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(element.tag, tuple(element.attributes)) for element in self.elements]


def read_page(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert not page.unclosed
    return page

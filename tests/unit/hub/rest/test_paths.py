"""Paths become one of few labels, and know their methods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.hub.rest.paths import OTHER, Paths

ID = "5b1f0f0e-8a55-4c0e-9a2f-3f4f6f3d2c11"
PATHS = Paths([
    ("/health", {"GET", "HEAD"}),
    ("/api/v1/projects", {"POST"}),
    ("/api/v1/projects", {"GET"}),
    ("/api/v1/projects/{thing_id:uuid}", {"GET"}),
    ("/api/v1/routes/{thing_id:uuid}/activate", {"POST"}),
])  # fmt: skip


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/health", "/health"),
        ("/api/v1/projects", "/api/v1/projects"),
        (f"/api/v1/projects/{ID}", "/api/v1/projects/{thing_id}"),
        (f"/api/v1/routes/{ID}/activate", "/api/v1/routes/{thing_id}/activate"),
        ("/api/v1/projects/{thing_id}", "/api/v1/projects/{thing_id}"),
        (f"/api/v1/projects/{ID}/", OTHER),
        ("/api/v1/projects/abc", OTHER),
        ("/health/", OTHER),
        ("", OTHER),
    ],
)
def test_an_id_is_no_part_of_a_label(path, label):
    assert PATHS.label(path) == label


@given(st.text())
def test_whatever_the_path_the_label_is_one_of_few(path):
    assert PATHS.label(path) in {*PATHS.methods, OTHER}


def test_all_methods_of_a_path_are_allowed_together():
    assert PATHS.allowed("/api/v1/projects") == "GET, POST"
    assert PATHS.allowed(f"/api/v1/projects/{ID}") == "GET"
    assert PATHS.allowed("/nowhere") == ""

"""Suites over HTTP: what an import must be, that it never changes, and what two at once come to."""

from __future__ import annotations

import hashlib
import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.hub_api import CORPUS, case, revision


@pytest.fixture
def suite(operator):
    project = operator.make("/projects", slug="search", name="Search")
    return operator.make("/suites", project_id=project["id"], slug="faq", name="FAQ")


@pytest.fixture
def imports(operator, suite):
    """Import a revision into the suite."""
    return lambda **body: operator.post(f"/suites/{suite['id']}/revisions", **body)


def faults(answer) -> dict[str, str]:
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "INVALID_REQUEST"
    return {item["where"]: item["rule"] for item in answer.json()["errors"]}


def test_a_suite_is_made_once_and_found_by_its_slug(operator, viewer, suite):
    assert viewer.get(f"/suites/{suite['id']}").json() == suite
    assert viewer.get("/suites", slug="faq").json()["items"] == [suite]
    assert viewer.get("/suites", slug="other").json()["items"] == []
    again = operator.post("/suites", project_id=suite["project_id"], slug="faq", name="Again")
    assert (again.status_code, again.json()["code"]) == (409, "SLUG_TAKEN")


def test_a_suite_belongs_to_a_project_that_exists(operator, suite):
    answer = operator.post("/suites", project_id=str(uuid.uuid4()), slug="x", name="X")
    assert (answer.status_code, answer.json()["code"]) == (422, "UNKNOWN_REFERENCE")


def test_a_revision_says_its_digests_and_its_count(imports, viewer):
    answer = imports(**revision(3, retrieval_settings={"top_k": 5, "rerank": None, "threshold": 0.25}))
    made = answer.json()
    text = '{"rerank":null,"threshold":0.25,"top_k":5}'
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/suite-revisions/{made['id']}"
    assert made["retrieval_config_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert (made["number"], made["case_count"]) == (1, 3)
    assert viewer.get(f"/suite-revisions/{made['id']}").json() == made


def test_the_digest_can_be_computed_again_from_what_the_hub_answers(imports, viewer):
    made = imports(**revision(7)).json()
    cases = viewer.get(f"/suite-revisions/{made['id']}/cases").json()["items"]
    for item in cases:
        assert item["review"]["reviewed_at"] == "2026-11-02T09:30:00Z"
        item["review"]["reviewed_at"] = "2026-11-02T09:30:00.000000Z"
    content = {"retrieval_settings": made["retrieval_settings"], "cases": cases}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert made["digest"] == hashlib.sha256(text.encode()).hexdigest()


def test_cases_come_back_as_they_were_sent_in_their_order_page_by_page(imports, viewer):
    cases = [case(number) for number in (4, 2, 9)]
    made = imports(**revision(0) | {"cases": cases}).json()
    first = viewer.get(f"/suite-revisions/{made['id']}/cases", limit=2).json()
    second = viewer.get(f"/suite-revisions/{made['id']}/cases", limit=2, offset=2).json()
    assert first["items"] + second["items"] == cases
    assert (first["has_more"], second["has_more"]) == (True, False)


def test_a_query_is_kept_to_the_last_space(imports, viewer):
    query = "  Wie groß?\n\t "
    made = imports(**revision(0) | {"cases": [case(query=query)]}).json()
    assert viewer.get(f"/suite-revisions/{made['id']}/cases").json()["items"][0]["query"] == query


def test_the_same_content_is_the_same_revision(imports, operator, suite):
    first = imports(**revision())
    again = imports(**revision())
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    events = operator.get("/audit-events", action="suite_revision.import").json()["items"]
    assert [event["subject_id"] for event in events] == [first.json()["id"]]
    assert events[0]["project_id"] == suite["project_id"]


def test_spelling_does_not_make_another_revision(imports):
    first = imports(**revision()).json()
    spelt = revision()
    for item in spelt["cases"]:
        item["case_id"] = item["case_id"].replace("-", "").upper()
        item["review"]["reviewed_at"] = "2026-11-02T10:30:00+01:00"
    assert imports(**spelt).json()["id"] == first["id"]


@pytest.mark.parametrize(
    "other",
    [
        {"retrieval_settings": {"top_k": 11}},
        {"retrieval_settings": {"top_k": 10, "a": 1.0}},
        {"cases": [case(1), case(0)]},
        {"cases": [case(0), case(1, query="Question 1? ")]},
        {"cases": [case(0), case(1, critical=True)]},
        {"cases": [case(number, label_provenance={"corpus_revision": "cd" * 32}) for number in (0, 1)]},
    ],
)
def test_other_content_is_the_next_revision(imports, viewer, suite, other):
    first = imports(**revision()).json()
    second = imports(**revision(**other)).json()
    assert second["number"] == first["number"] + 1 == 2
    assert viewer.get(f"/suites/{suite['id']}/revisions").json()["items"] == [second, first]
    assert viewer.get(f"/suites/{suite['id']}/revisions", digest=first["digest"]).json()["items"] == [first]


def test_every_fault_is_told_at_once_and_nothing_is_written(imports, viewer, suite):
    broken = [
        case(0, query=""),
        case(1, labels={}),
        case(2, labels={"a": 0}),
        case(0),
        {name: value for name, value in case(3).items() if name != "review"},
        case(4, review={"reviewer": "Ada", "reviewed_at": "2026-11-02T09:30:00"}),
        case(5, label_provenance={"corpus_revision": CORPUS.upper()}),
        case(6, critical="yes"),
        case(7, surprise=1),
        "no case",
    ]
    told = faults(imports(retrieval_settings={"top_k": 0}, cases=broken))
    assert set(told) == {
        "body.retrieval_settings.top_k",
        "body.cases.0.query",
        "body.cases.1.labels",
        "body.cases.2.labels.*",
        "body.cases.3.case_id",
        "body.cases.4.review",
        "body.cases.5.review.reviewed_at",
        "body.cases.6.label_provenance.corpus_revision",
        "body.cases.7.critical",
        "body.cases.8.*",
        "body.cases.9",
    }
    assert told["body.cases.3.case_id"] == "the case at 0 has this id too"
    assert viewer.get(f"/suites/{suite['id']}/revisions").json()["items"] == []


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ('{"top_k": true}', "integer"),
        ('{"top_k": 101}', "100"),
        ('{"top_k": 1.5}', "integer"),
        ("{}", "required"),
        ("[]", "object"),
        ('{"top_k": 1, "x": 1e999}', "too large"),
        ('{"top_k": 1, "x": 9007199254740993}', "53 bits"),
        ('{"top_k": 1, "x": "\\u0000"}', "NUL"),
        ('{"top_k": 1, "x\\u0000": 1}', "NUL"),
        ('{"top_k": 1, "x": ' + "[" * 20 + "]" * 20 + "}", "nested"),
        ('{"top_k": 1, "x": "' + "a" * 10_000 + '"}', "longer"),
    ],
)
def test_retrieval_settings_are_plain_json_with_a_top_k(operator, suite, settings, rule):
    body = f'{{"retrieval_settings": {settings}, "cases": [{json.dumps(case())}]}}'
    told = faults(operator.send(f"/suites/{suite['id']}/revisions", body.encode()))
    assert all(where.startswith("body.retrieval_settings") for where in told)
    assert any(rule in text for text in told.values()), told


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_that_are_no_json_are_refused(operator, suite, word):
    body = f'{{"retrieval_settings": {{"top_k": 1, "x": {word}}}, "cases": []}}'
    assert operator.send(f"/suites/{suite['id']}/revisions", body.encode()).status_code == 422


@pytest.mark.parametrize(
    "fields",
    [
        {"query": "a\x00b"},
        {"query": "a" * 10_001},
        {"labels": {"": 1}},
        {"labels": {"a\x00": 1}},
        {"labels": {"a": 1.0}},
        {"labels": {"a": True}},
        {"labels": {"a": 2**31}},
        {"labels": {"a": -1}},
        {"labels": [1]},
        {"case_id": "one"},
        {"case_id": 1},
        {"case_id": None},
        {"review": {"reviewer": "", "reviewed_at": "2026-11-02T09:30:00Z"}},
        {"review": {"reviewer": "Ada", "reviewed_at": 1793611800}},
        {"review": {"reviewer": "Ada", "reviewed_at": "1793611800"}},
        {"review": {"reviewer": "Ada", "reviewed_at": "2026-11-02"}},
        {"review": {"reviewer": "Ada", "reviewed_at": "0001-01-01T00:00:00+14:00"}},
        {"review": None},
        {"label_provenance": {}},
        {"label_provenance": {"corpus_revision": CORPUS, "score": 2**60}},
    ],
)
def test_a_case_that_breaks_a_rule_is_refused_with_its_place(imports, fields):
    told = faults(imports(**revision(0) | {"cases": [case(0), case(1, **fields)]}))
    assert all(where.startswith("body.cases.1") for where in told), told


def test_all_cases_are_about_one_corpus(imports, viewer, suite):
    corpora = ("no digest", CORPUS, "cd" * 32, CORPUS, "ef" * 32)
    cases = [case(number, label_provenance={"corpus_revision": name}) for number, name in enumerate(corpora)]
    told = faults(imports(**revision() | {"cases": [*cases, "no case", case(7, label_provenance=[])]}))
    assert [place for place, rule in told.items() if rule.endswith("are about one corpus")] == [
        "body.cases.2.label_provenance.corpus_revision",
        "body.cases.4.label_provenance.corpus_revision",
    ]
    assert set(told) >= {
        "body.cases.0.label_provenance.corpus_revision",
        "body.cases.5",
        "body.cases.6.label_provenance",
    }
    assert viewer.get(f"/suites/{suite['id']}/revisions").json()["items"] == []


@pytest.mark.parametrize("count", [0, 101])
def test_a_revision_has_one_to_a_hundred_cases(imports, count):
    assert "body.cases" in faults(imports(**revision(count)))


def test_a_hundred_cases_with_names_of_pythons_own_are_kept(imports, viewer):
    names = {"model_dump": 1, "copy": {"__class__": [None, True, 0.5]}, "corpus_revision": CORPUS}
    made = imports(**revision(99) | {"cases": [case(number, label_provenance=names) for number in range(100)]}).json()
    assert made["case_count"] == 100
    assert viewer.get(f"/suite-revisions/{made['id']}/cases").json()["items"][0]["label_provenance"] == names


def test_imports_at_once_make_one_revision_of_one_content_and_one_number_for_each_other(imports, viewer, suite):
    bodies = [revision(1 + number % 3) for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda body: imports(**body), bodies))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201] * 3
    found = viewer.get(f"/suites/{suite['id']}/revisions").json()["items"]
    assert [item["number"] for item in found] == [3, 2, 1]


def test_what_is_not_there_is_a_404(operator, viewer, suite):
    nobody = uuid.uuid4()
    assert operator.post(f"/suites/{nobody}/revisions", **revision()).status_code == 404
    for path in ("suites/{}", "suites/{}/revisions", "suite-revisions/{}", "suite-revisions/{}/cases"):
        assert viewer.get("/" + path.format(nobody)).status_code == 404


def test_a_viewer_reads_and_does_not_write(viewer, suite):
    assert viewer.post("/suites", project_id=suite["project_id"], slug="x", name="X").status_code == 403
    assert viewer.post(f"/suites/{suite['id']}/revisions", **revision()).status_code == 403

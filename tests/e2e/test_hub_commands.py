"""The commands that ask a hub over HTTP, against a hub that really runs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.hub_api import case
from tests.hub_process import STEELYARD, running_hub
from tests.processes import WAIT_S

if TYPE_CHECKING:
    from pathlib import Path

CAPABILITY = "rag.embedding@1"
IDENTITY = ("--model", "m", "--dimension", "384", "--pooling", "mean", "--normalized", "--max-length", "256")
DOCUMENT = """
[projects.{slug}]
name = "Search"
[projects.{slug}.artifacts.a]
source = "s"
revision = "1"
files = {{ "m.onnx" = "{sha}" }}
[projects.{slug}.runtimes.r]
kind = "steelyard"
base_url = "http://127.0.0.1:8472/v1"
[projects.{slug}.identities.i]
model = "m"
dimension = 384
pooling = "mean"
is_normalized = true
max_length = 256
dtype = "int8"
[projects.{slug}.deployments.old]
artifact = "a"
runtime = "r"
identity = "i"
stage = "production"
[projects.{slug}.bindings."rag.embedding@1"]
current_deployment = "old"
[projects.{slug}.bindings."rag.embedding@1".clients.indexer]
name = "Indexer"
[projects.{slug}.suites.faq]
name = "FAQ"
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with running_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture
def slug() -> str:
    return f"p{uuid.uuid4().hex[:12]}"


@pytest.fixture
def path(slug, tmp_path) -> Path:
    """Give a declarative file for a project of its own."""
    file: Path = tmp_path / "hub.toml"
    file.write_text(DOCUMENT.format(slug=slug, sha="ab" * 32), encoding="utf-8")
    return file


def write_cases(path: Path, *lines: object) -> str:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return str(path)


def shown(hub, *arguments: str):
    return json.loads(hub.run(*arguments, "--json").stdout)


def test_a_catalogue_is_made_name_by_name(hub, slug):
    hub.run("projects", "create", "--slug", slug, "--name", "Search")
    owned = ("--project", slug)
    hub.run("bindings", "create", *owned)
    hub.run("artifacts", "create", *owned, "--slug", "a", "--source", "s", "--revision", "1",
            "--file", f"m.onnx={'ab' * 32}")  # fmt: skip
    hub.run("runtimes", "create", *owned, "--slug", "r", "--kind", "steelyard", "--base-url", "http://127.0.0.1:1/v1")
    hub.run("identities", "create", *owned, "--slug", "i", *IDENTITY, "--dtype", "int8")
    parts = ("--artifact", "a", "--runtime", "r", "--identity", "i")
    for name, stage in (("old", "production"), ("new", "nonproduction")):
        hub.run("deployments", "create", *owned, "--slug", name, *parts, "--stage", stage)
    hub.run("routes", "create", *owned, "--slug", "trial", "--binding", CAPABILITY, "--deployment", "new")
    hub.run("clients", "create", *owned, "--slug", "indexer", "--name", "Indexer", "--binding", CAPABILITY)
    done = hub.run("bindings", "set-current", CAPABILITY, *owned, "--deployment", "old", "--expected-version", "1")
    binding = shown(hub, "bindings", "show", CAPABILITY, *owned)
    assert binding["current_deployment_id"] == shown(hub, "deployments", "show", "old", *owned)["id"]
    assert "version                2" in done.output
    assert "trial" in hub.run("routes", "list", *owned).output


def test_each_lifecycle_verb_asks_for_the_version(hub, slug, path):
    hub.run("apply", "-f", str(path), "--yes")
    owned = ("--project", slug)
    parts = ("--artifact", "a", "--runtime", "r", "--identity", "i")
    hub.run("deployments", "create", *owned, "--slug", "new", *parts, "--stage", "nonproduction")
    hub.run("routes", "create", *owned, "--slug", "trial", "--binding", CAPABILITY, "--deployment", "new")
    late = hub.run("routes", "deactivate", "trial", *owned, "--expected-version", "7", code=1)
    assert "The present version is 1" in late.output
    assert "[VERSION_CONFLICT]" in late.output
    hub.run("routes", "deactivate", "trial", *owned, "--expected-version", "1")
    hub.run("routes", "activate", "trial", *owned, "--expected-version", "2")
    hub.run("routes", "deactivate", "trial", *owned, "--expected-version", "3")
    hub.run("deployments", "set-stage", "new", *owned, "--stage", "production", "--expected-version", "1")
    hub.run("deployments", "retire", "new", *owned, "--expected-version", "2")
    hub.run("bindings", "deactivate", CAPABILITY, *owned, "--expected-version", "2")
    hub.run("clients", "revoke", "indexer", *owned, "--expected-version", "1")
    assert "Missing option '--expected-version'" in hub.run("routes", "activate", "trial", code=2).output
    events = shown(hub, "audit", "list", *owned, "--limit", "100")["items"]
    assert {"route.deactivate", "deployment.retire", "service_client.revoke"} <= {event["action"] for event in events}


def test_a_secret_goes_to_stdout_alone_and_lets_its_holder_in(hub, slug, path):
    hub.run("apply", "-f", str(path), "--yes")
    issued = hub.run("clients", "issue-secret", "indexer", "--project", slug, "--name", "December")
    secret = issued.stdout.strip()
    assert secret.startswith("steelyard_client_")
    assert "shown once" in issued.stderr
    refused = hub.run("projects", "list", code=1, STEELYARD_CREDENTIAL=secret)
    assert "[FORBIDDEN]" in refused.output
    viewer = hub.run("credentials", "issue", "--role", "viewer", "--name", "Dashboard").stdout.strip()
    hub.run("projects", "list", STEELYARD_CREDENTIAL=viewer)
    hub.run("credentials", "revoke", viewer.split("_")[2])
    assert "[UNAUTHORIZED]" in hub.run("projects", "list", code=1, STEELYARD_CREDENTIAL=viewer).output


def test_a_list_is_a_table_and_says_how_to_go_on(hub, slug):
    for number in range(3):
        hub.run("projects", "create", "--slug", f"{slug}-{number}", "--name", f"Project {number}")
    listed = hub.run("projects", "list", "--limit", "2")
    assert listed.stdout.splitlines()[0].split() == ["id", "slug", "name"]
    assert listed.stdout.splitlines()[1].endswith("Project 2")
    assert listed.stderr == "There are more: add --offset 2\n"
    assert shown(hub, "projects", "list", "--slug", f"{slug}-1")["items"][0]["name"] == "Project 1"
    assert hub.run("projects", "list", "--slug", "none").output.strip() == "id  slug  name"


def test_what_the_hub_does_not_take_is_told_by_place(hub):
    told = hub.run("projects", "create", "--slug", "Big", "--name", "", code=1).output
    assert "[INVALID_REQUEST]" in told
    assert "\n  slug: " in told
    assert "\n  name: " in told


def test_a_name_in_two_projects_needs_the_project(hub, slug):
    for project in (f"{slug}-a", f"{slug}-b"):
        hub.run("projects", "create", "--slug", project, "--name", "X")
        hub.run("suites", "create", "--project", project, "--slug", slug, "--name", "X")
    told = hub.run("suites", "show", slug, code=1).output
    assert f"2 suites are called {slug}: add --project, or give the id" in told
    found = shown(hub, "suites", "show", slug, "--project", f"{slug}-b")
    assert shown(hub, "suites", "show", found["id"]) == found
    assert f"No suite is called none in project {slug}-a" in hub.run(
        "suites", "show", "none", "--project", f"{slug}-a", code=1
    ).output  # fmt: skip


def test_a_project_alone_names_its_routes_only_where_it_has_one_binding(hub, slug):
    hub.run("projects", "create", "--slug", slug, "--name", "X")
    assert "has 0 bindings" in hub.run("routes", "list", "--project", slug, code=1).output
    assert "no name was given" in hub.run("credentials", "list", "--project", slug, code=2).output


def test_a_file_is_shown_first_and_done_once(hub, slug, path):
    plan = hub.run("apply", "-f", str(path), "--dry-run").output
    assert f"+ deployment {slug}/old: artifact=a identity=i runtime=r stage=production" in plan
    assert f"+ binding {slug}/{CAPABILITY}: current_deployment=old" in plan
    assert "= 0 unchanged" in plan
    assert shown(hub, "projects", "list", "--slug", slug)["items"] == []
    assert "add --yes" in hub.run("apply", "-f", str(path), code=2).output
    assert shown(hub, "projects", "list", "--slug", slug)["items"] == []
    assert hub.run("apply", "-f", str(path), "--yes").stderr == "Done.\n"
    again = hub.run("apply", "-f", str(path))
    assert (again.stdout, again.stderr) == ("= 8 unchanged\n", "Nothing to do.\n")


def with_cases(path: Path, slug: str, *lines: object, settings: str = "{ top_k = 10, min_score = 0.25 }") -> None:
    """Let the declarative file name a file of cases beside it."""
    cases = f'[projects.{slug}.suites.faq.revision]\ncases = "faq.jsonl"\nretrieval_settings = {settings}\n'
    path.write_text(path.read_text("utf-8") + cases, "utf-8")
    write_cases(path.with_name("faq.jsonl"), *lines)


def test_a_file_names_a_suites_cases(hub, slug, path):
    with_cases(path, slug, case(0), "", case(1, query="  Spaces stay. "))
    plan = hub.run("apply", "-f", str(path), "--dry-run").stdout
    (line,) = [line for line in plan.splitlines() if "suite revision" in line]
    assert line.startswith(f"+ suite revision {slug}/faq: 2 cases, top_k=10, min_score=0.25, digest ")
    hub.run("apply", "-f", str(path), "--yes")
    (made,) = shown(hub, "suites", "revisions", "faq", "--project", slug)["items"]
    assert line.endswith(f" {made['digest'][:12]}…")
    assert hub.run("apply", "-f", str(path)).stdout == "= 9 unchanged\n"
    settings = path.with_name("settings.json")
    settings.write_text(json.dumps(made["retrieval_settings"]), "utf-8")
    imported = ("suites", "import", "faq", str(path.with_name("faq.jsonl")), "--project", slug)
    assert hub.run(*imported, "--settings", str(settings)).stderr == "This is revision 1 already.\n"
    hub.run(*imported, "--top-k", "3")
    again = hub.run("apply", "-f", str(path))
    assert again.stdout.splitlines() == [
        f"= suite revision {slug}/faq: it is revision 1 already, and the newest is 2",
        "= 9 unchanged",
    ]


def test_every_fault_of_a_file_and_of_its_cases_is_told_at_once(hub, slug, path):
    other = case(4, label_provenance={"corpus_revision": "cd" * 32})
    with_cases(path, slug, case(0), "{", "", case(1, query=""), other, "[]", settings="{}")
    path.write_text(path.read_text("utf-8").replace('"steelyard"', '"scales"'), "utf-8")
    told = hub.run("apply", "-f", str(path), "--yes", code=2).output
    assert [line.strip().partition(": ")[0] for line in told.splitlines()[1:]] == [
        "faq.jsonl line 2", "faq.jsonl line 4", "faq.jsonl line 5", "faq.jsonl line 6",
        f"projects.{slug}.runtimes.r.kind", f"projects.{slug}.suites.faq.revision.retrieval_settings.top_k",
    ]  # fmt: skip
    assert "line 5: label_provenance.corpus_revision: is not that of the cases before it" in told
    assert shown(hub, "projects", "list", "--slug", slug)["items"] == []


def test_cases_that_are_not_there_are_told_with_the_place(hub, slug, path):
    with_cases(path, slug, case(0))
    path.with_name("faq.jsonl").unlink()
    told = hub.run("apply", "-f", str(path), code=2).output
    assert f"projects.{slug}.suites.faq.revision.cases: " in told
    assert "faq.jsonl cannot be read: No such file" in told


def test_a_file_larger_than_the_hub_takes_is_told_before_it_is_sent(hub, slug, path):
    labels = {f"chunk-{number}-{'x' * 490}": 1 for number in range(200)}
    with_cases(path, slug, *(case(number, labels=labels) for number in range(90)))
    told = hub.run("apply", "-f", str(path), "--dry-run", code=2).output
    assert "and the hub takes 8388608: apply it in parts" in told


@pytest.mark.parametrize(("answer", "code", "last"), [("y", 0, "Done."), ("n", 1, "Nothing was done")])
def test_on_a_terminal_it_asks(hub, slug, path, answer, code, last):
    terminal, other_end = pty.openpty()
    environ = {"STEELYARD_URL": hub.url, "STEELYARD_CREDENTIAL": hub.secret, "PATH": ""}
    try:
        os.write(terminal, f"{answer}\n".encode())
        ran = subprocess.run(
            [STEELYARD, "hub", "apply", "-f", str(path)], env=environ, stdin=other_end, capture_output=True, text=True,
            check=False, timeout=WAIT_S,
        )  # fmt: skip
    finally:
        os.close(terminal)
        os.close(other_end)
    assert (ran.returncode, last in ran.stderr) == (code, True), ran.stderr
    assert "Do this? [y/N]" in ran.stdout
    assert len(shown(hub, "projects", "list", "--slug", slug)["items"]) == (1 if answer == "y" else 0)


def test_a_difference_is_refused_with_what_to_do_instead(hub, slug, path):
    hub.run("apply", "-f", str(path), "--yes")
    text = path.read_text("utf-8").replace('kind = "steelyard"', 'kind = "vllm"').replace('"Search"', '"Find"')
    path.write_text(text, "utf-8")
    told = hub.run("apply", "-f", str(path), "--yes", code=1)
    assert f"! runtime {slug}/r: kind is 'steelyard' and the file says 'vllm', which never changes" in told.stdout
    assert f"! project {slug}: name is 'Search' and the file says 'Find'" in told.stdout
    assert "Nothing was done" in told.stderr
    assert "! runtime" in hub.run("apply", "-f", str(path), "--dry-run").stdout


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[projects", "is no TOML: "),
        ("a = " + "[" * 20_000, "nested too deeply"),
        ("a = " + "1" * 5000, "a number of thousands of digits"),
        ("project = 1", "project: is no name that is known here"),
        ('[projects.x]\nname = "X"\n[projects.x.runtimes.r]\nkind = 1\nbase_url = "http://a"', "runtimes.r.kind: "),
        ('[projects.x]\nname = "X"\nsecret = "s"', "projects.x.secret: is no name"),
        ("[projects.x]\nname = 2026-11-30", "projects.x.name: "),
    ],
)
def test_a_file_that_is_no_document_is_told_with_the_place(hub, tmp_path, text, sentence):
    file = tmp_path / "hub.toml"
    file.write_text(text, "utf-8")
    assert sentence in hub.run("apply", "-f", str(file), code=2).output


def test_a_file_that_is_not_there_is_told(hub, tmp_path):
    assert "cannot be read: No such file" in hub.run("apply", "-f", str(tmp_path / "none"), code=2).output


def test_a_suite_is_imported_from_json_lines_once(hub, slug, path, tmp_path):
    hub.run("apply", "-f", str(path), "--yes")
    query = "  Is it   there? "
    file = write_cases(tmp_path / "faq.jsonl", case(0, query=query), "", case(1))
    command = ("suites", "import", "faq", file, "--project", slug, "--top-k", "10")
    assert hub.run(*command).stderr == "Imported revision 1.\n"
    assert hub.run(*command).stderr == "This is revision 1 already.\n"
    settings = tmp_path / "settings.json"
    settings.write_text('{"top_k": 5, "min_score": 0.25}', "utf-8")
    second = shown(hub, *command[:-2], "--settings", str(settings))
    assert (second["number"], second["retrieval_settings"]) == (2, {"top_k": 5, "min_score": 0.25})
    owned = ("--project", slug)
    assert [item["number"] for item in shown(hub, "suites", "revisions", "faq", *owned)["items"]] == [2, 1]
    assert shown(hub, "suites", "cases", "faq", *owned, "--number", "1")["items"][0]["query"] == query
    assert "Question 1?" in hub.run("suites", "cases", "faq", *owned).output
    assert "no such revision" in hub.run("suites", "cases", "faq", *owned, "--number", "9", code=1).output


def test_every_fault_of_an_import_is_told_by_its_line(hub, slug, path, tmp_path):
    hub.run("apply", "-f", str(path), "--yes")
    file = write_cases(
        tmp_path / "bad.jsonl",
        case(0),
        "{",
        case(1, query=""),
        "",
        case(0),
        json.dumps(case(2)).replace('"chunk-2": 1', '"chunk-1": 1'),
        case(3, labels={"a": 0}),
    )
    told = hub.run("suites", "import", "faq", file, "--project", slug, "--top-k", "0", code=2).output
    lines = [line.strip() for line in told.splitlines()[1:]]
    assert lines[0].startswith("retrieval_settings.top_k: ")
    assert lines[1].startswith("line 2: no JSON")
    assert lines[2].startswith("line 3: query: ")
    assert lines[3].startswith("line 5: case_id: ")
    assert lines[4] == 'line 6: no JSON: "chunk-1" stands twice in one object'
    assert lines[5].startswith("line 7: labels.a: ")
    assert shown(hub, "suites", "revisions", "faq", "--project", slug)["items"] == []


def test_an_import_says_how_many_results_count(hub, tmp_path):
    file = write_cases(tmp_path / "faq.jsonl", case(0))
    assert "either --top-k N, or --settings FILE" in hub.run("suites", "import", "faq", file, code=2).output


def test_a_hub_that_is_not_there_is_one_sentence(hub):
    told = hub.run("projects", "list", "--url", "http://127.0.0.1:1", code=1).output
    assert told == "Error: The hub at http://127.0.0.1:1 cannot be reached: is `steelyard hub serve` running?\n"


@pytest.mark.parametrize("secret", [None, "", "two words"])
def test_a_credential_is_asked_for_and_never_shown(hub, secret):
    told = hub.run("projects", "list", code=2, STEELYARD_CREDENTIAL=secret).output
    assert told.startswith("Error: ")
    assert not secret or secret not in told


def test_an_address_that_is_none_is_refused(hub):
    assert "must be http://" in hub.run("projects", "list", "--url", "hub", code=2).output


def test_without_the_extra_the_command_line_shows_its_help_and_a_command_names_the_extra():
    probe = (
        "import sys\n"
        "for name in ('pydantic', 'fastapi', 'sqlalchemy', 'alembic', 'psycopg'): sys.modules[name] = None\n"
        "from steelyard.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    for arguments, code, text in (
        (["--help"], 0, "hub"),
        (["hub", "--help"], 0, "bindings"),
        (["hub", "projects", "list"], 1, "needs the extra `hub`"),
        (["hub", "init"], 2, "needs the extra `hub`"),
        (["hub", "serve"], 2, "needs the extra `hub`"),
        (["hub", "db", "check"], 2, "needs the extra `hub`"),
    ):
        ran = subprocess.run(
            [sys.executable, "-c", probe, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_S
        )
        assert (ran.returncode, text in ran.stdout + ran.stderr) == (code, True), ran.stderr


def test_the_installed_command_asks_too(hub):
    environ = {"STEELYARD_URL": hub.url, "STEELYARD_CREDENTIAL": hub.secret, "PATH": ""}
    ran = subprocess.run(
        [STEELYARD, "hub", "credentials", "list"], env=environ, capture_output=True, text=True, check=False,
        timeout=WAIT_S,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "hub init" in ran.stdout
    assert hub.secret not in ran.stdout

"""`steelyard hub comparisons create`: a comparison of what a binding points at with what a route leads to."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import click

from steelyard.hub.remote.errors import NotNamed, WrongUse
from steelyard.hub.remote.naming import Names
from steelyard.hub.remote.nouns import BY_NAME
from steelyard.hub.remote.printing import print_thing
from steelyard.hub.remote.session import asking, url_option
from steelyard.hub.remote.suites import revision_of

if TYPE_CHECKING:
    from steelyard.client import HubClient, Thing

_NOUN = BY_NAME["comparisons"]


def _create(*, url: str | None, as_json: bool, **given: Any) -> None:
    """Create a comparison of a binding's current deployment with a candidate.

    Nothing starts by it: it is pending until the consumer that it names claims it. A binding has at most one that is
    not over; `list` shows it, and `cancel` ends it. Nothing is ever promoted.

    What is left out follows from the rest: the binding and the candidate's deployment from its route, the current
    deployment from the binding, both digests from the suite's revision.

    If the connection is lost, it asks once more by the same idempotency key, which makes no second comparison. Without
    --idempotency-key a new key is made and told on standard error: repeat the command with it if no answer came.
    """
    with asking(url) as client:
        fields = _fields(client, given)
        answer = client.create_once(_NOUN.collection, fields | {"idempotency_key": _key(given["idempotency_key"])})
    if not as_json:
        made = "Created; it waits for its consumer." if answer.is_new else "This key has made this comparison before."
        click.echo(made, err=True)
    print_thing(answer.value, as_json=as_json, lines=_NOUN.lines)


def _key(given: str | None) -> str:
    if given is not None:  # An empty one, as of a variable that is not set, is refused and not replaced.
        return given
    key = str(uuid.uuid4())
    click.echo(f"If no answer comes, repeat the command with --idempotency-key {key}", err=True)
    return key


def _fields(client: HubClient, given: dict[str, Any]) -> Thing:
    """Return the intent's fields but for its key; raises NotNamed and WrongUse."""
    anywhere = Names(client, given["project"])
    route = client.get("routes", anywhere.id_of(BY_NAME["routes"], given["candidate_route"]))
    if route["deployment_id"] is None:
        raise NotNamed("The stable route leads to the current deployment: name the experiment route to the candidate")
    binding_id = _id(anywhere, "bindings", given["binding"]) or route["project_binding_id"]
    binding = client.get("project-bindings", binding_id)
    names = Names(client, given["project"] or binding["project_id"])
    return {
        "project_binding_id": binding["id"],
        "consumer_client_id": _id(names, "clients", given["consumer"]),
        "current_deployment_id": _id(names, "deployments", given["current_deployment"]) or _pointed_at(binding),
        "candidate_deployment_id": _id(names, "deployments", given["candidate_deployment"]) or route["deployment_id"],
        "candidate_route_id": route["id"],
        "current_index_ref": given["current_index_ref"],
        "candidate_index_ref": given["candidate_index_ref"],
        **_suite_fields(client, names, given),
    }


def _id(names: Names, noun: str, name: str | None) -> str | None:
    return names.id_of(BY_NAME[noun], name) if name else None


def _pointed_at(binding: Thing) -> str:
    if binding["current_deployment_id"] is None:
        raise NotNamed("The binding points at no deployment yet, so there is nothing to compare with")
    return str(binding["current_deployment_id"])


def _suite_fields(client: HubClient, names: Names, given: dict[str, Any]) -> Thing:
    revision = _revision(client, names, given)
    return {
        "suite_revision_id": revision["id"],
        "corpus_sha256": given["corpus_sha256"] or _corpus(client, revision),
        "retrieval_config_sha256": given["retrieval_config_sha256"] or revision["retrieval_config_sha256"],
    }


def _revision(client: HubClient, names: Names, given: dict[str, Any]) -> Thing:
    suite, revision_id = given["suite"], given["suite_revision"]
    if bool(suite) == bool(revision_id) or (revision_id and given["number"]):
        raise WrongUse("Say which questions: either --suite NAME, with --number for an older revision, or "
                       "--suite-revision ID")  # fmt: skip
    if revision_id:
        return client.get("suite-revisions", revision_id)
    return revision_of(client, names.id_of(BY_NAME["suites"], suite), given["number"])


def _corpus(client: HubClient, revision: Thing) -> str:
    """Return the corpus of a revision's first case; all cases of a revision are about one corpus."""
    (case,) = client.page(f"suite-revisions/{revision['id']}/cases", limit=1).items
    return str(case["label_provenance"]["corpus_revision"])


def _option(name: str, told: str, **more: Any) -> click.Option:
    return click.Option([f"--{name}"], help=told, **more)


create = click.Command(
    "create",
    callback=_create,
    help=_create.__doc__,
    params=[
        _option("candidate-route", "The experiment route to the candidate: its slug or id.", required=True),
        _option("consumer", "The client that may claim it: its slug or id.", required=True),
        _option("suite", "The suite: its slug or id."),
        _option("number", "The number of the suite's revision.  [default: the newest]", type=click.INT),
        _option("suite-revision", "The revision's id, instead of --suite."),
        _option("current-index-ref", "The index that the current deployment made.", required=True),
        _option("candidate-index-ref", "The index that the candidate made, another one.", required=True),
        _option("binding", "Its capability or id.  [default: the route's]"),
        _option("current-deployment", "Its slug or id.  [default: the one that the binding points at]"),
        _option("candidate-deployment", "Its slug or id.  [default: the one that the route leads to]"),
        _option("corpus-sha256", "The corpus digest.  [default: the one in the suite's cases]"),
        _option("retrieval-config-sha256", "The retrieval settings' digest.  [default: the revision's]"),
        _option("idempotency-key", "8 to 128 visible characters, new for each attempt.  [default: a UUID]"),
        click.Option(["--project"], help="The project in which names are looked up.  [default: the binding's]"),
        url_option,
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
    ],
)

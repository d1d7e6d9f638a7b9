"""The OpenAPI document: complete, unambiguous, and true to what is answered."""

from __future__ import annotations

import re
import warnings
from datetime import timedelta

import pytest
from django.utils import timezone
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from portal.api.docs import schema
from portal.api.operations import ApiView
from portal.api.v1.urls import urlpatterns
from scheduler.services.bookings import plan_booking
from scheduler.services.simulating.scenarios import ask_scenario
from tests import requesting, scenes
from tests.composing import make_template
from tests.pages.telling import channel_of
from tests.recurring import schedule_of
from tests.seconding import waiting_cancel


def test_it_is_made_without_a_warning_and_is_valid():
    GENERATOR_STATS.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        document = SchemaGenerator().get_schema(request=None, public=True)
    assert not GENERATOR_STATS._warn_cache
    assert not GENERATOR_STATS._error_cache
    validate_schema(document)


def test_every_route_and_verb_has_its_own_operation():
    names = [
        one["operationId"]
        for verbs in schema()["paths"].values()
        for verb, one in verbs.items()
        if verb != "parameters"
    ]
    assert len(names) == len(set(names))
    assert len(schema()["paths"]) == len(urlpatterns)


def test_every_operation_declares_its_scope():
    for pattern in urlpatterns:
        view = pattern.callback.cls
        assert issubclass(view, ApiView)
        for verb in ("get", "post", "put", "patch", "delete"):
            handler = getattr(view, verb, None)
            assert handler is None or hasattr(handler, "scope"), (view, verb)


def keys_differ(reply: object, shape: dict, where: str = "") -> list[str]:
    """Where a reply and its schema name different fields."""
    if "$ref" in shape:
        shape = schema()["components"]["schemas"][shape["$ref"].rsplit("/", 1)[-1]]
    for several in ("allOf", "oneOf"):
        if several in shape:
            return [] if reply is None else keys_differ(reply, shape[several][0], where)
    if isinstance(reply, dict) and "properties" in shape:
        known = shape["properties"]
        found = [f"{where}.{key}" for key in set(reply) ^ set(known)]
        for key in set(reply) & set(known):
            found += keys_differ(reply[key], known[key], f"{where}.{key}")
        return found
    if isinstance(reply, list) and reply and "items" in shape:
        return keys_differ(reply[0], shape["items"], f"{where}[0]")
    return []


_APART = ("/api/v1/tokens", "/api/v1/schema")
# Files that somebody made before.
_NAMES = {"{name}": "n1", "{username}": "alice", "{pool}": "default"}
_NAMES |= {"attempts/{number}": "attempts/1"}
_FILES = ("/outputs/{number}/", "/finance/files/{id}/", "/simulator/{id}/trace/")


@pytest.mark.django_db
def test_replies_have_the_fields_the_schema_promises(program, root, alice, cluster, project):
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=scenes.at(1))
    scenes.write_log(cluster.node(1), attempt, b"one\n")
    other = scenes.submit(alice, project, name="waits")
    caller = program(root)
    job_set = scenes.submit(alice, project, array="0-3%2").job_set
    begin = timezone.now() + timedelta(hours=1)
    span = {"from_at": begin, "until_at": begin + timedelta(hours=1)}
    booking = plan_booking(actor=root, owner=project, pool=cluster.pool, nodes=1, **span)
    session = scenes.submit(alice, project, script="", session="shell")
    scenario = ask_scenario(actor=root, pool=cluster.pool, hours=1, changes=["policy=las"])
    values = {
        "channels/{id}": f"channels/{channel_of(root).pk}",
        "bulk-cancels/{id}": f"bulk-cancels/{waiting_cancel(job_set).pk}",
        "sets/{id}": f"sets/{job_set.pk}",
        "bookings/{id}": f"bookings/{booking.pk}",
        "requests/{id}": f"requests/{requesting.ask(alice, project).pk}",
        "templates/{slug}": f"templates/{make_template(root, project.team)}",
        "schedules/{id}": f"schedules/{schedule_of(alice, project).pk}",
        "sessions/{id}": f"sessions/{session.pk}",
        "simulator/{id}": f"simulator/{scenario.pk}",
        "{other}": str(other.pk),
        "{id}": str(job.pk),
        "pools/{name}": f"pools/{cluster.pool.name}",
        **_NAMES,
        "{team}/{project}": project.path,
        "teams/{slug}": f"teams/{project.team.slug}",
        "{slug}": "capacity",
    }
    checked = 0
    for address, verbs in schema()["paths"].items():
        if "get" not in verbs or address.startswith(_APART) or address.endswith(_FILES):
            continue
        place = address.removeprefix("/api/v1")
        for name, value in values.items():
            place = place.replace(name, value)
        reply = caller.get(place)
        assert reply.status_code == 200, (place, reply.content[:300])
        promised = verbs["get"]["responses"]["200"]["content"]
        shape = next(iter(promised.values()))["schema"]
        if reply["Content-Type"] == "application/json":
            assert keys_differ(reply.json(), shape, address) == []
            checked += 1
    assert checked >= 15


def promised(address, verb, reply):
    """The shape that is declared for the status of this reply."""
    found = schema()["paths"][f"/api/v1{address}"][verb]["responses"]
    return found[str(reply.status_code)]["content"]["application/json"]["schema"]


@pytest.mark.django_db
def test_a_key_that_was_sent_before_is_answered_as_promised(program, alice, cluster, project, spec):
    caller = program(alice)
    job = scenes.submit(alice, project, name="first")
    for address, place, body in (
        ("/jobs/", "/jobs/", spec),
        ("/jobs/bulk/", "/jobs/bulk/", {"jobs": [spec, spec]}),
        ("/jobs/{id}/clone/", f"/jobs/{job.pk}/clone/", {}),
    ):
        replies = [caller.post(place, body, HTTP_IDEMPOTENCY_KEY=place) for _ in range(2)]
        assert [reply.status_code for reply in replies] == [201, 200]
        for reply in replies:
            assert keys_differ(reply.json(), promised(address, "post", reply), place) == []
    quote = caller.post("/jobs/?dry_run=1", spec)
    assert promised("/jobs/", "post", quote)["$ref"].endswith("/JobOrQuote")
    declared = schema()["components"]["schemas"]["JobOrQuote"]["oneOf"]
    assert keys_differ(quote.json(), declared[1], "quote") == []


@pytest.mark.django_db
def test_a_report_that_is_made_behind_the_scenes_is_answered_as_promised(
    program, root, monkeypatch
):
    monkeypatch.setattr("portal.reports.books.sending.MOST_SENT", -1)
    reply = program(root).get("/finance/reports/capacity/file/?period=2026-11")
    assert reply.status_code == 202, reply.content
    shape = promised("/finance/reports/{slug}/file/", "get", reply)
    assert keys_differ(reply.json(), shape, "file") == []


@pytest.mark.django_db
def test_people_can_read_it_without_a_foreign_host(client, alice):
    client.force_login(alice)
    reply = client.get("/api/docs/")
    assert reply.status_code == 200
    page = reply.content.decode()
    assert "jobs_create" in page
    assert "Idempotency-Key" in page
    assert 'src="http' not in page


@pytest.mark.django_db
def test_people_jump_to_a_group_and_filter_by_words(client, alice):
    client.force_login(alice)
    page = client.get("/api/docs/").content.decode()
    groups = re.findall(r'<a class="chip" href="#([a-z-]+)">', page)
    assert groups[0] == "jobs" and all(f'<section id="{name}">' in page for name in groups)
    assert page.count('<details class="panel"') == client.get("/api/docs/").context["count"]
    few = client.get("/api/docs/", {"q": " POST  jobs/ CANCEL "})
    shown = few.content.decode()
    assert 0 < few.context["found"] < few.context["count"]
    assert 'id="jobs_cancel"' in shown and 'id="jobs_list"' not in shown
    assert 'value="POST jobs/ CANCEL"' in shown and "Show all" in shown
    none = client.get("/api/docs/", {"q": "<b>\x00" + "x" * 5000})
    assert none.status_code == 200 and none.context["found"] == 0
    assert "No operation has these words" in none.content.decode()
    assert "<b>\x00" not in none.content.decode()

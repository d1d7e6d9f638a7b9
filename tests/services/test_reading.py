"""Queries whose statement is built once give what the queries themselves give."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.backends.sqlite3.operations import DatabaseOperations
from django.db.models import F
from django.db.models.signals import post_init
from django.test.utils import CaptureQueriesContext

from accounts.statements import AskedOnce, BuiltOnce, ChangedOnce, empty_here
from scheduler.ledger.segments import Bucket
from scheduler.models import (
    Allocation,
    Device,
    DeviceSegment,
    Job,
    JobEvent,
    Node,
    Placement,
    UsageEntry,
)
from scheduler.services.rows.adding import add_objects, add_rows
from scheduler.services.timeline.segments import _facts_known, _known_of_devices
from scheduler.states import AttemptState
from tests import scenes
from tests.scenes import NOON, at, start, submit

pytestmark = pytest.mark.django_db


def test_rows_are_those_of_the_query_for_any_number_of_ids(root, alice, project):
    cluster = scenes.build_cluster(root, gpus=8)
    start(submit(alice, project), cluster.node(1))
    every = list(Device.objects.order_by("pk").values_list("pk", flat=True))
    built = BuiltOnce(_known_of_devices)
    for count in (1, 3, 7, 8, 5, 2):
        ids = every[:count]
        asked = _facts_known(Device.objects.filter(pk__in=ids), NOON)
        assert built.rows(ids, NOON) == list(asked)
    assert built.rows([], NOON) == []
    with CaptureQueriesContext(connection) as seen:
        built.rows(every[:8], NOON)
    assert len(seen) == 1


def _heard_since(ids, now):
    late = Node.objects.filter(pk__in=ids, last_seen_at__gt=now - timedelta(hours=1))
    return late.values_list("pk")


def test_a_query_that_reckons_with_its_arguments_is_refused(root):
    """Its first answer would be frozen into the statement."""
    with pytest.raises(ValueError, match="cannot be built once"):
        BuiltOnce(_heard_since).rows([1], NOON)


def _above(ids, tier):
    jobs = Job.objects.filter(pk__in=ids).values_list("pk")
    # As Django itself does on PostgreSQL, where columns have a range.
    return jobs if tier < -(2**31) else jobs.filter(tier__gt=tier)


def test_a_query_that_drops_an_argument_is_refused(root):
    with pytest.raises(ValueError, match="drops a number for its size"):
        BuiltOnce(_above).rows([1], 7)


def _on_either(ids, one, other):
    return Placement.objects.filter(attempt__in=ids, node__in=[one, other]).values_list("pk")


def test_values_of_one_list_are_told_apart(root):
    """Django writes two that are the same once."""
    assert BuiltOnce(_on_either).rows([1], 7, 8) == []


def _raise_all(ids, by, seen_at):
    return Node.objects.filter(pk__in=ids), {
        "desired_revision": F("desired_revision") + by,
        "last_seen_at": seen_at,
        "agent_version": "9",
    }


def test_a_change_built_once_is_the_update_it_stands_for(root):
    nodes = scenes.build_cluster(root, nodes=5, gpus=1).nodes
    ids = [node.pk for node in nodes]
    built = ChangedOnce(_raise_all)
    wanted = {node.pk: node.desired_revision for node in nodes}
    for chosen, by in ((ids[:1], 2), (ids[:3], 5), (ids[1:4], 7), ([], 11)):
        with CaptureQueriesContext(connection) as seen:
            assert built.change(chosen, by, at(by)) == len(chosen)
        assert len(seen) == bool(chosen)
        for pk in chosen:
            wanted[pk] += by
    told = Node.objects.values_list("pk", "desired_revision", "last_seen_at", "agent_version")
    by_pk = {pk: more for pk, *more in told}
    assert {pk: revision for pk, (revision, _, _) in by_pk.items()} == wanted
    assert by_pk[ids[0]][1:] == [at(5), "9"] and by_pk[ids[3]][1:] == [at(7), "9"]
    assert by_pk[ids[4]][2] != "9", "who is not named stays as it was"


def _of_node(ids, node, before):
    found = Placement.objects.filter(pk__in=ids, node_id=node, attempt__assigned_at__lt=before)
    return found.select_related("attempt").only("rank", "attempt__state", "attempt__end_facts")


def test_objects_are_those_of_the_query_with_what_was_read_along(root, alice, project):
    cluster = scenes.build_cluster(root, gpus=4)
    node = cluster.node(1)
    for _ in range(3):
        start(submit(alice, project), node, now=at(1))
    ids = list(Placement.objects.values_list("pk", flat=True))
    built = BuiltOnce(_of_node)
    with CaptureQueriesContext(connection) as seen:
        found = built.read(ids, node.pk, at(2))
        told = [(one.pk, one.rank, one.attempt.state, one.attempt.end_facts) for one in found]
    assert len(seen) == 1 and told == [(pk, 0, "assigned", {}) for pk in ids]
    assert found == list(_of_node(ids, node.pk, at(2)))
    asked = _of_node(ids, node.pk, at(2)).first()
    assert found[0].get_deferred_fields() == asked.get_deferred_fields() != set()
    assert found[0].cpus == Placement.objects.get(pk=ids[0]).cpus
    assert built.read(ids, node.pk, at(1)) == built.read(ids, node.pk + 1, at(2)) == []


def _of_jobs(ids):
    return Job.objects.filter(pk__in=ids).select_related("pool", "project__team", "job_set")


def test_objects_are_made_as_django_makes_them(root, alice, project):
    cluster = scenes.build_cluster(root, gpus=4)
    job = start(submit(alice, project), cluster.node(1)).job
    [found], [asked] = BuiltOnce(_of_jobs).read([job.pk]), _of_jobs([job.pk])
    for one, other in ((found, asked), (found.pool, asked.pool), (found.project, asked.project)):
        mine, its = vars(one) | {"_state": 0}, vars(other) | {"_state": 0}
        assert list(mine) == list(its) and mine == its
        assert (one._state.adding, one._state.db) == (False, other._state.db)
        assert one._state.fields_cache.keys() == other._state.fields_cache.keys()
    assert found.project.team == project.team and found.job_set is None
    found.pool_id += 1
    assert "pool" not in found._state.fields_cache, "another key is another object"


def test_who_listens_to_new_objects_is_told_of_those(root, alice, project):
    scenes.build_cluster(root)
    job, told = submit(alice, project), []

    def listen(instance, **_):
        told.append(instance.pk)

    post_init.connect(listen, sender=Job)
    try:
        BuiltOnce(_of_jobs).read([job.pk])
    finally:
        post_init.disconnect(listen, sender=Job)
    assert told == [job.pk]


@pytest.mark.once  # of SQLite alone
def test_equal_moments_are_read_once_and_as_django_reads_them(root):
    scenes.build_cluster(root, nodes=2)
    first, second = Node.objects.values_list("last_seen_at", flat=True)
    assert first is second and first == NOON and first.tzinfo is UTC
    read, usual = connection.ops, DatabaseOperations(connection)
    for value in (None, "2026-11-20 12:00:00.5", datetime(2026, 11, 20), NOON, "nonsense"):
        mine = read.convert_datetimefield_value(value, None, connection)
        with suppress(AttributeError):
            assert mine == usual.convert_datetimefield_value(value, None, connection)


def _heard(before):
    return Node.objects.filter(last_seen_at__lt=before).values_list("name", "last_seen_at")


def test_a_query_without_ids_gives_values_as_python_has_them(root):
    scenes.build_cluster(root, nodes=2)
    assert AskedOnce(_heard).read(at(5)) == [("n1", NOON), ("n2", NOON)]
    assert AskedOnce(_heard).read(NOON) == []


def _named(name, before):
    return Node.objects.filter(name=name, last_seen_at__lt=before).select_related("pool")


def test_texts_are_values_like_others(root):
    scenes.build_cluster(root, nodes=2)
    named = AskedOnce(_named)
    for name in ("n1", "n2", "n' OR 1=1", "%"):
        found = [(node.name, node.pool.name) for node in named.read(name, at(5))]
        assert found == ([(name, "default")] if name in ("n1", "n2") else [])


def test_rows_that_are_added_equal_instances_however_many_statements_they_take(
    root, alice, project
):
    cluster = scenes.build_cluster(root, gpus=2)
    start(submit(alice, project), cluster.node(1))
    placement, device = Placement.objects.get(), Device.objects.order_by("pk")[0]
    names = ("device", "pool", "flavour", "bucket", "attempt", "cause", "start_s", "end_s")
    whose = (device.pk, device.node.pool_id, "H100")
    kinds = ((Bucket.FREE, None), (Bucket.RUN, placement.attempt_id))
    rows = [(*whose, *kinds[n % 2], "old", n, n + 1) for n in range(260)]
    add_rows(DeviceSegment, names, rows)
    found = DeviceSegment.objects.filter(cause="old").order_by("pk")
    assert list(found.values_list(*names)) == rows
    times = ("placement", "device", "acquired_at", "released_at")
    held = (placement.pk, device.pk, NOON, at(1800))
    with CaptureQueriesContext(connection) as seen:
        add_rows(Allocation, times, [held])
        add_rows(Allocation, times, [])
    assert len(seen) == 1
    assert Allocation.objects.order_by("pk").values_list(*times).last() == held


def test_objects_that_are_added_equal_those_of_django(root, alice, project):
    cluster = scenes.build_cluster(root, gpus=2)
    first = submit(alice, project)
    start(first, cluster.node(1))
    attempt = first.attempts.get()
    names = [field.attname for field in Job._meta.concrete_fields if not field.primary_key]
    plain = {name: getattr(first, name) for name in names}
    odd = {"wait_facts": {"a": [1, None, "é'\""]}, "name": "x" * 60, "ended_at": at(5)}
    wanted = [plain, {**plain, **odd}, plain] * 10
    ours = add_objects(Job(**fields) for fields in wanted)
    theirs = Job.objects.bulk_create(Job(**fields) for fields in wanted)
    rows = Job.objects.order_by("pk").values_list(*names)
    assert list(rows.filter(pk__in=[one.pk for one in ours])) == list(
        rows.filter(pk__in=[one.pk for one in theirs])
    )
    assert [one.pk for one in ours] == sorted(one.pk for one in ours)
    ours[1].name = "renamed"
    ours[1].save()
    assert Job.objects.get(pk=ours[1].pk).name == "renamed"
    event = JobEvent(job=first, attempt=attempt, at=NOON, kind=AttemptState.RUNNING, detail={})
    assert JobEvent.objects.get(pk=add_objects([event])[0].pk).kind == "running"
    assert add_objects([]) == []
    with pytest.raises(TypeError, match="filled in by itself"):
        add_objects([UsageEntry()])


def _held(placements):
    return Allocation.objects.filter(empty_here("released_at"), placement_id__in=placements)


def test_what_is_open_of_a_few_is_looked_up_by_their_keys(root, alice, project):
    """Not among all that a cluster holds."""
    cluster = scenes.build_cluster(root, gpus=4)
    for _ in range(3):
        start(submit(alice, project), cluster.node(1), now=at(1))
    places = list(Placement.objects.order_by("pk").values_list("pk", flat=True))
    Allocation.objects.filter(placement_id=places[0]).update(released_at=at(2))
    usual = Allocation.objects.filter(released_at__isnull=True, placement_id__in=places[:2])
    assert list(_held(places[:2])) == list(usual) != []
    if connection.vendor == "sqlite":
        assert "(placement_id=?)" in _held(places[:2]).explain()
    else:
        assert "+" not in str(_held(places).query)

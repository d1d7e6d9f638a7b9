"""Calls that are taken in together leave what they leave one after the other."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduler.conf import load_conf
from scheduler.models import (
    Allocation,
    Attempt,
    DeviceSegment,
    HoursSummed,
    Job,
    JobEvent,
    Node,
    NodeEvent,
    Placement,
    UsageEntry,
)
from scheduler.services import reaping
from scheduler.services.calling.together import Call, sync_nodes
from scheduler.services.nodes.identity import AttemptOfAnother
from scheduler.services.rows.updating import update_row, update_rows
from scheduler.services.sync import sync_node
from scheduler.states import EndReason, NodeState
from scheduler.wire.messages import SyncReply, SyncRequest, TroubleReport
from scheduler.wire.readings import DeviceSample, HostSample
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit

pytestmark = pytest.mark.django_db

FAILED = {"reason": EndReason.EXIT_CODE, "exit_code": 7}
ROWS = (
    (Job, "name state end_reason exit_code end_facts started_at ended_at version"),
    (Attempt, "job__name state end_reason end_facts exit_code started_at ended_at master_port"),
    (Attempt, "job__name failure triage released_at stop_reason stopping_at"),
    (Placement, "attempt__job__name rank reported started_at ended_at exit_code end_reason"),
    (Allocation, "device__uuid acquired_at released_at"),
    (DeviceSegment, "device__uuid start_s end_s bucket cause"),
    (JobEvent, "job__name kind at from_state to_state detail"),
    (UsageEntry, "device_model gpu_seconds cost period_start"),
    (Node, "name state state_reason desired_revision last_seen_at clock_skew_s"),
    (NodeEvent, "node__name kind at from_state to_state detail"),
)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=4, gpus=2)


@pytest.fixture
def gang(cluster, alice, project):
    return start(submit(alice, project, name="gang", nodes=3), *cluster.nodes[:3])


@pytest.fixture
def single(cluster, alice, project):
    return start(submit(alice, project, name="single"), cluster.node(4))


@pytest.fixture(autouse=True)
def known(cluster):
    """All have spoken before: from then on their calls are plain."""
    for node in cluster.nodes:
        scenes.sync(node)


def call(node, *reports, now=NOON, **fields):
    """As a door makes it: the node as its token was looked up."""
    said = {"boot_id": "boot-1", "agent_id": "agent-1", "seen_revision": 0, "hold_s": 0}
    said |= {"protocol": 1, "agent_version": "0.1.0", "sent_at": now.timestamp()} | fields
    row = Node.objects.select_related("pool").get(pk=node.pk)
    return Call(row, SyncRequest(reports=reports, **said), now)


def one_by_one(calls, now):
    def alone(one):
        try:
            return sync_node(node=one.node, request=one.request, now=now)
        except Exception as error:
            return error

    return [alone(one) for one in calls]


def together(calls, now):
    return sync_nodes(calls, now=now)


def played(way, *rounds):
    """What is left of these rounds of (moment, node, reports), and the answers to each; undone."""
    with transaction.atomic():
        answers = [
            way([call(node, *reports, now=now) for node, *reports in calls], now)
            for now, calls in rounds
        ]
        left = [sorted(map(repr, kind.objects.values_list(*names.split()))) for kind, names in ROWS]
        transaction.set_rollback(True)
    return left, answers


def test_a_gang_runs_and_ends_beside_another_job(cluster, gang, single):
    one, two, three, four = cluster.nodes
    rounds = (
        (at(1), [(one, running(gang, master_port=29_500)), (four, running(single))]),
        (at(2), [(two, running(gang, 1)), (one, running(gang)), (three, running(gang, 2))]),
        (at(9), [(n, ended(gang, rank)) for rank, n in enumerate(cluster.nodes[:3])]),
        (at(11), [(four, ended(single)), *((n, ended(gang, r)) for r, n in enumerate((one, two)))]),
    )
    (left, answers), (expected, told) = played(together, *rounds), played(one_by_one, *rounds)
    assert left == expected
    assert answers[0] == told[0] and answers[1] == told[1] and answers[3] == told[3]
    # Who spoke before the last one ended need not ask again.
    assert [reply.forget for reply in told[2]] == [(), (), (gang.pk,)]
    assert [reply.forget for reply in answers[2]] == [(gang.pk,)] * 3


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_rank_that_fails_stops_the_others(cluster, gang, single, order):
    up = [running(gang, rank, master_port=29_500 if rank == 0 else None) for rank in range(3)]
    ends = [up[0], ended(gang, 1, **FAILED), up[2]]
    stops = [ended(gang, rank, reason=EndReason.EXIT_CODE) for rank in range(3)]
    nodes = cluster.nodes

    def said(reports):
        return [(nodes[rank], reports[rank]) for rank in order]

    rounds = (
        (at(1), [(nodes[0], up[0])]),
        (at(2), [*said(up), (nodes[3], running(single))]),
        (at(5), [*said(ends), (nodes[3], ended(single, **FAILED))]),
        (at(9), said([stops[0], ends[1], stops[2]])),
    )
    assert played(together, *rounds)[0] == played(one_by_one, *rounds)[0]


def test_of_two_ranks_that_fail_the_first_one_heard_tells_why(cluster, gang):
    one, two, three, _ = cluster.nodes
    sync_nodes([call(one, running(gang, master_port=29_500))], now=at(1))
    sync_nodes([call(two, running(gang, 1)), call(three, running(gang, 2))], now=at(2))
    first = call(three, ended(gang, 2, **FAILED), now=at(5))
    later = call(one, ended(gang, 0, reason=EndReason.EXIT_CODE, exit_code=1), now=at(5.01))
    sync_nodes([first, later, call(two, ended(gang, 1), now=at(5.02))], now=at(6))
    gang.refresh_from_db()
    assert (gang.end_facts["rank"], gang.exit_code) == (2, 7)


def test_a_call_that_is_refused_harms_no_other(cluster, gang, single):
    one, two, three, four = cluster.nodes
    rounds = (
        (at(1), [(one, running(gang, master_port=29_500)), (four, running(single))]),
        (at(2), [(two, running(gang, 1)), (three, running(single)), (four, ended(single))]),
    )
    (left, answers), (expected, told) = played(together, *rounds), played(one_by_one, *rounds)
    assert left == expected
    assert isinstance(answers[1][1], AttemptOfAnother) and isinstance(told[1][1], AttemptOfAnother)
    assert (answers[1][0], answers[1][2]) == (told[1][0], told[1][2])


def test_who_says_more_or_is_not_as_it_was_is_heard_alone(cluster, gang):
    one, two, three, four = cluster.nodes
    Node.objects.filter(pk=four.pk).update(trouble="by_hand")
    calls = [
        call(one, running(gang, master_port=29_500)),
        call(two, troubles=(TroubleReport(kind="disk_full", detail="full"),)),
        call(three, agent_id="agent-2"),
        call(four, host_sample=HostSample(NOON.timestamp(), 5.0, 1, 1)),
        call(one, seen_revision=10**6, hold_s=20),
    ]
    # It fell silent after its token was looked up.
    Node.objects.filter(pk=one.pk).update(state=NodeState.SILENT)
    answers = sync_nodes(calls, now=at(3))
    assert all(isinstance(one, SyncReply) for one in answers)
    said = dict(Node.objects.values_list("name", "state"))
    assert (said["n1"], said["n2"]) == (NodeState.READY, NodeState.QUARANTINED)
    assert Node.objects.get(pk=three.pk).agent_id == "agent-2"
    assert set(Node.objects.values_list("last_seen_at", flat=True)) == {at(3)}
    assert Attempt.objects.get(pk=gang.pk).master_port == 29_500


@pytest.fixture
def silent(cluster, gang, single):
    """All at work, and then nobody is heard for a lease; the moment at which that is noticed."""
    one, two, three, four = cluster.nodes
    sync_nodes([call(one, running(gang, master_port=29_500))], now=at(1))
    sync_nodes([call(two, running(gang, 1)), call(three, running(gang, 2))], now=at(2))
    sync_nodes([call(four, running(single))], now=at(2))
    late = at(3) + load_conf().node_lease
    assert reaping.mark_silent(now=late) == 4
    return late


@pytest.mark.parametrize("is_drained", [False, True])
def test_nodes_that_were_silent_return_together(cluster, gang, single, silent, is_drained):
    one, two, _, four = cluster.nodes
    if is_drained:
        Node.objects.filter(pk=two.pk).update(drain_requested_at=at(3), state_reason="a new disk")
    first = [(two, running(gang, 1)), (one, running(gang)), (four, ended(single))]
    later = silent + timedelta(seconds=9)
    rounds = ((silent, first), (later, [(n, ended(gang, r)) for r, n in enumerate((one, two))]))
    (left, answers), (expected, told) = played(together, *rounds), played(one_by_one, *rounds)
    assert left == expected and answers == told
    then = "draining" if is_drained else "ready"
    said = [row.split(", ")[:2] for row in left[-2]]
    states = [("n1", "ready"), ("n2", then), ("n3", "silent"), ("n4", "ready")]
    assert said == [[f"('{name}'", f"'{state}'"] for name, state in states]


def test_more_nodes_that_return_or_fall_silent_take_no_more_statements(cluster, gang, silent):
    def statements(work):
        with transaction.atomic(), CaptureQueriesContext(connection) as seen:
            work()
            transaction.set_rollback(True)
        return len(seen)

    def back(count):
        calls = [call(node, now=silent) for node in cluster.nodes[:count]]
        return statements(lambda: sync_nodes(calls, now=silent))

    def gone(count):
        sync_nodes([call(node, now=silent) for node in cluster.nodes[:count]], now=silent)
        later = silent + load_conf().node_lease + timedelta(seconds=1)
        return statements(lambda: reaping.mark_silent(now=later))

    assert back(2) == back(4)
    assert gone(1) == gone(4)


def test_a_node_that_is_drained_while_it_returns_is_heard_alone(cluster, silent):
    calls = [call(node, now=silent) for node in cluster.nodes[:2]]
    Node.objects.filter(pk=calls[1].node.pk).update(drain_requested_at=silent)
    sync_nodes(calls, now=silent)
    said = dict(Node.objects.values_list("name", "state"))
    assert (said["n1"], said["n2"]) == (NodeState.READY, NodeState.DRAINING)


def test_who_waits_for_news_gets_no_answer_yet(cluster, gang):
    one, two, *_ = cluster.nodes
    seen = dict(Node.objects.values_list("pk", "desired_revision"))
    waits = [call(n, hold_s=20, seen_revision=seen[n.pk]) for n in (one, two)]
    assert sync_nodes(waits, now=at(1)) == [None, None]
    gone = [call(n, hold_s=20, seen_revision=seen[n.pk] - 1) for n in (one, two)]
    assert [reply.revision for reply in sync_nodes(gone, now=at(1))] == [seen[one.pk], seen[two.pk]]


def test_more_calls_take_no_more_statements(cluster, alice, project):
    jobs = [start(submit(alice, project), node) for node in cluster.nodes]

    def statements(count):
        pairs = zip(cluster.nodes[:count], jobs, strict=False)
        calls = [call(node, running(job)) for node, job in pairs]
        with CaptureQueriesContext(connection) as seen:
            sync_nodes(calls, now=at(1))
        return len(seen)

    statements(4)
    assert statements(2) == statements(3) == statements(4)


def test_rows_get_their_own_values_as_one_by_one(cluster, gang):
    names = ("reported", "started_at", "exit_code", "detail", "checkpoint_pending")
    rows = [
        (pk, ("running", at(pk % 7), None, "it's 100 %", True))
        for pk in gang.placements.order_by("pk").values_list("pk", flat=True)
    ]
    rows[1] = (rows[1][0], ("ended", None, 3, "", False))

    def left(write):
        with transaction.atomic():
            write()
            found = list(Placement.objects.order_by("pk").values_list("pk", *names))
            transaction.set_rollback(True)
        return found

    def each():
        for pk, values in rows:
            assert update_row(Placement, pk, dict(zip(names, values, strict=True)))

    assert left(lambda: update_rows(Placement, names, rows)) == left(each)
    assert left(lambda: update_rows(Placement, names, rows)) != left(lambda: None)


def test_the_row_that_late_readings_change_for_all_is_locked_after_all_nodes(cluster, single):
    uuid = single.placements.get().allocations.get().device.uuid
    late = DeviceSample(uuid, at(1).timestamp(), 0.0, 1, 1.0, 1.0, single.pk)
    with CaptureQueriesContext(connection) as seen:
        sync_nodes([call(cluster.node(4), running(single), samples=(late,))], now=at(100))
    *before, last = [one["sql"] for one in seen if "UPDATE" in one["sql"]]
    assert "hourssummed" in last and any('"scheduler_node"' in one for one in before)
    assert HoursSummed.objects.get().late_at == at(100), "before anybody has ever summed, too"

"""Enrolment, drain, silence and loss."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.conf import load_conf
from scheduler.models import Allocation, Device, Node
from scheduler.services import reaping
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.nodes import (
    authenticate_node,
    drain_node,
    enrol_node,
    issue_node_token,
    resume_node,
    retire_node,
)
from scheduler.services.nodes.inventory import store_devices
from scheduler.states import EndReason, NodeState, Trouble
from tests import scenes
from tests.scenes import NOON, at, ended, enrol_request, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def secret(cluster, root):
    return issue_node_token(actor=root, pool=cluster.pool, now=NOON)[1]


def test_a_token_enrols_one_node_once(cluster, secret):
    reply = enrol_node(request=enrol_request(secret, "gpu-07", 2), now=at(60))
    node = authenticate_node(reply.node_token)
    assert node is not None
    assert (node.name, node.devices.count(), node.pool) == ("gpu-07", 2, cluster.pool)
    with pytest.raises(Forbidden):
        enrol_node(request=enrol_request(secret, "gpu-08", 2), now=at(61))
    assert not Node.objects.filter(name="gpu-08").exists()


def test_an_expired_or_unknown_token_is_refused(cluster, secret):
    for bad in (secret + "x", ""):
        with pytest.raises(Forbidden):
            enrol_node(request=enrol_request(bad, "gpu-07", 2), now=NOON)
    with pytest.raises(Forbidden):
        enrol_node(request=enrol_request(secret, "gpu-07", 2), now=at(16 * 60))


@pytest.mark.parametrize("name", ["", "GPU", "-a", "a/b", "a b", "new", "x" * 64, "a\n"])
def test_a_bad_name_is_refused_and_the_token_is_kept(cluster, secret, name):
    with pytest.raises(Invalid):
        enrol_node(request=enrol_request(secret, name, 2), now=NOON)
    assert enrol_node(request=enrol_request(secret, "ok", 2), now=NOON).name == "ok"


def test_a_taken_name_is_refused_and_the_token_is_kept(cluster, secret):
    with pytest.raises(Conflict):
        enrol_node(request=enrol_request(secret, "n1", 2), now=NOON)
    assert enrol_node(request=enrol_request(secret, "n3", 2), now=NOON).name == "n3"


def test_impossible_inventories_are_refused_whole(cluster, secret):
    good = enrol_request(secret, "n3", 2)
    twice = (good.devices[0], good.devices[0])
    negative = (replace(good.devices[0], memory_mib=-1),)
    many = tuple(replace(good.devices[0], uuid=f"G{i}", index=i) for i in range(1000))
    foreign = (replace(good.devices[0], uuid="GPU-SIM-n1-0"),)
    for devices in (twice, negative, many, foreign):
        with pytest.raises(Invalid):
            enrol_node(request=replace(good, devices=devices), now=NOON)
    assert not Node.objects.filter(name="n3").exists()


@pytest.mark.parametrize("is_known", [False, True])
def test_cards_take_as_many_statements_however_many_there_are(cluster, is_known):
    def count(name, gpus):
        scenes.add_node(cluster, name, gpus if is_known else 1)
        with CaptureQueriesContext(connection) as seen:
            store_devices(cluster.nodes[-1], enrol_request("", name, gpus).devices, now=at(1))
        assert cluster.nodes[-1].devices.filter(is_present=True).count() == gpus
        return len(seen)

    assert count("small", 2) == count("large", 12)


def test_only_operators_issue_tokens_drain_and_resume(cluster, alice, lead):
    for actor in (alice, lead):
        for call in (
            lambda a: issue_node_token(actor=a, pool=cluster.pool),
            lambda a: drain_node(actor=a, node=cluster.node(1)),
            lambda a: resume_node(actor=a, node=cluster.node(1)),
        ):
            with pytest.raises(Forbidden):
                call(actor)


def test_drain_lets_work_finish_and_resume_takes_it_back(cluster, operator, alice, project):
    node = cluster.node(1)
    attempt = start(submit(alice, project), node)
    drain_node(actor=operator, node=node, reason="new fans", now=at(1))
    assert node.state == NodeState.DRAINING
    assert reaping.finish_drains(now=at(2)) == 0
    sync(node, ended(attempt), now=at(3))
    assert reaping.finish_drains(now=at(4)) == 1
    node.refresh_from_db()
    assert (node.state, node.state_reason) == (NodeState.DRAINED, "new fans")
    assert resume_node(actor=operator, node=node).state == NodeState.READY


def test_a_drain_that_stops_jobs_queues_them_again_in_their_place(
    cluster, operator, alice, project
):
    node = cluster.node(2)
    job = submit(alice, project, nodes=2)
    attempt = start(job, cluster.node(1), node)
    sync(cluster.node(1), running(attempt, master_port=29511), now=at(0))
    sync(node, running(attempt, 1), now=at(0))
    drain_node(actor=operator, node=node, reason="fans", now=at(1))
    assert sync(node, now=at(2)).assignments[0].stop is None
    drain_node(actor=operator, node=node, stop_jobs=True, now=at(3))
    for rank, each in enumerate((cluster.node(1), node)):
        (told,) = sync(each, now=at(4)).assignments
        assert told.stop is not None and told.stop.reason == EndReason.NODE_DRAINED
        sync(each, ended(attempt, rank, reason=EndReason.NODE_DRAINED), now=at(5))
    job.refresh_from_db()
    assert (job.state, job.end_reason, job.queued_at) == ("queued", "node_drained", at(0))
    assert job.end_facts["node"] == "n2", "the drained one, not the first to stop"
    assert (job.user_retries_used, job.free_retries_used) == (0, 0)
    assert reaping.finish_drains(now=at(6)) == 1


def test_a_silent_node_keeps_its_devices_and_comes_back_as_it_was(
    cluster, operator, alice, project
):
    node = cluster.node(1)
    attempt = start(submit(alice, project), node)
    sync(node, running(attempt), now=at(0))
    drain_node(actor=operator, node=node, now=at(1))
    late = NOON + load_conf().node_lease + timedelta(seconds=2)
    sync(cluster.node(2), now=late)
    assert reaping.mark_silent(now=late) == 1
    node.refresh_from_db()
    assert node.state == NodeState.SILENT
    assert Allocation.objects.filter(released_at__isnull=True).count() == 1
    sync(node, running(attempt), now=late)
    node.refresh_from_db()
    assert node.state == NodeState.DRAINING


def test_a_lost_node_gives_its_jobs_back_free_of_charge(cluster, alice, project):
    node = cluster.node(1)
    job = submit(alice, project)
    attempt = start(job, node)
    sync(node, running(attempt), now=at(0))
    reaping.mark_silent(now=NOON + load_conf().node_lease + timedelta(seconds=1))
    late = NOON + scenes.given_up_after() + timedelta(seconds=1)
    sync(cluster.node(2), now=late)
    assert reaping.mark_lost(now=late - timedelta(seconds=2)) == 0
    assert reaping.mark_lost(now=late) == 1
    job.refresh_from_db()
    assert (job.state, job.free_retries_used) == ("queued", 1)
    assert sum(e.cost for e in job.usage.all()) == 0
    reply = sync(node, running(attempt), now=late)
    assert reply.assignments == ()


@pytest.mark.parametrize(
    ("asked_s", "stop_s", "counts_s"), [(4 * 3600, 0, 4 * 3600), (60, 30, 930), (0, 600, 1500)]
)
def test_a_node_is_given_up_once_its_most_patient_job_was_stopped(
    cluster, alice, project, asked_s, stop_s, counts_s
):
    """A shorter time than usual ends the program sooner, and nothing is given away for it."""
    node = cluster.node(1)
    asked = submit(alice, project, disconnect_grace=asked_s, stop={"grace": stop_s})
    attempts = [start(job, node) for job in (submit(alice, project), asked)]
    told = sync(node, now=at(0)).assignments
    assert [order.launch.disconnect_grace_s for order in told] == [0, asked_s]
    sync(node, *map(running, attempts), now=at(0))
    reaping.mark_silent(now=NOON + load_conf().node_lease + timedelta(seconds=1))
    lost_at = NOON + timedelta(seconds=counts_s * 1.01 + load_conf().node_lease_s + 60)
    for late_s, state in ((-1, "silent"), (1, "lost")):
        reaping.mark_lost(now=lost_at + timedelta(seconds=late_s))
        node.refresh_from_db()
        assert node.state == state


def test_half_a_gang_lost_stops_the_other_half(cluster, alice, project):
    job = submit(alice, project, nodes=2)
    attempt = start(job, cluster.node(1), cluster.node(2))
    sync(cluster.node(1), running(attempt, master_port=29500))
    sync(cluster.node(2), running(attempt, 1))
    late = NOON + scenes.given_up_after() + timedelta(seconds=1)
    reaping.mark_silent(now=late)
    # Were the server that hears it an hour behind, it would be heard again and not be lost.
    sync(cluster.node(1), now=late - timedelta(hours=1))
    assert reaping.mark_silent(now=late) == 1 and reaping.mark_lost(now=late) == 0
    later = late + load_conf().node_lease + timedelta(seconds=1)
    sync(cluster.node(1), now=later)
    assert reaping.mark_lost(now=later) == 1
    order = sync(cluster.node(1), now=later).assignments[0].stop
    assert order is not None and order.reason == "node_lost"


def test_an_assignment_nobody_takes_up_is_taken_back(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    deadline = load_conf().start_deadline_s
    assert reaping.revoke_unaccepted(now=at(deadline - 1)) == 0
    assert reaping.revoke_unaccepted(now=at(deadline + 1)) == 1
    assert reaping.revoke_unaccepted(now=at(deadline + 1)) == 0
    job.refresh_from_db()
    assert job.state == "stopping"
    # It was told at the last moment: until it says that it has stopped, nothing is given back.
    (order,) = sync(cluster.node(1), running(attempt), now=at(deadline + 2)).assignments
    assert order.stop is not None and order.stop.reason == EndReason.START_TIMEOUT
    assert Allocation.objects.filter(released_at__isnull=True).exists()
    sync(cluster.node(1), ended(attempt, reason=EndReason.START_TIMEOUT), now=at(deadline + 3))
    job.refresh_from_db()
    assert (job.state, job.free_retries_used) == ("queued", 1)


def test_a_node_that_was_silent_has_the_whole_time_to_take_up_its_assignment(
    cluster, alice, project
):
    start(submit(alice, project), cluster.node(1))
    conf = load_conf()
    back = conf.node_lease_s + conf.start_deadline_s
    assert reaping.mark_silent(now=at(back - 1)) == 2
    assert reaping.revoke_unaccepted(now=at(back - 1)) == 0
    (order,) = sync(cluster.node(1), now=at(back)).assignments
    assert order.stop is None and reaping.revoke_unaccepted(now=at(back + 1)) == 0
    assert reaping.revoke_unaccepted(now=at(back + conf.start_deadline_s + 1)) == 1


def test_a_node_that_comes_and_goes_is_not_waited_for_for_ever(cluster, alice, project):
    start(submit(alice, project), cluster.node(1))
    conf = load_conf()
    late = conf.start_deadline_s + conf.lost_after.total_seconds() + 1
    reaping.mark_silent(now=at(late - 2))
    sync(cluster.node(1), now=at(late - 1))
    assert reaping.revoke_unaccepted(now=at(late)) == 1


def test_a_node_that_does_not_stop_gets_no_more_work(cluster, root, alice, project):
    attempt = start(submit(alice, project), cluster.node(1))
    deadline = load_conf().start_deadline_s
    reaping.revoke_unaccepted(now=at(deadline + 1))
    attempt.refresh_from_db()
    late = deadline + 1 + attempt.stop_grace_s + 90
    assert reaping.quarantine_unstoppable(now=at(late - 1)) == 0
    assert reaping.quarantine_unstoppable(now=at(late)) == 1
    assert reaping.quarantine_unstoppable(now=at(late + 1)) == 0
    node = Node.objects.get(pk=cluster.node(1).pk)
    assert node.state == NodeState.QUARANTINED and "does not" in node.state_reason
    # A silence, as of an agent that is started anew, does not bring it back: an operator does.
    sync(cluster.node(2), now=at(late + 2))
    reaping.mark_silent(now=at(late + 100))
    sync(node, now=at(late + 101))
    node.refresh_from_db()
    assert (node.state, node.trouble) == (NodeState.QUARANTINED, Trouble.DOES_NOT_STOP)
    resume_node(actor=root, node=node, now=at(late + 102))
    node.refresh_from_db()
    assert (node.state, node.trouble) == (NodeState.READY, "")


def test_a_retired_nodes_name_and_cards_may_be_used_again(cluster, root, secret):
    retire_node(actor=root, node=cluster.node(1), now=NOON)
    enrol_node(request=enrol_request(secret, "n1", 2), now=at(1))
    assert Node.objects.get(name="n1").devices.count() == 2
    assert Device.objects.filter(uuid="GPU-SIM-n1-0").count() == 1


def test_a_busy_node_is_not_retired(cluster, root, alice, project):
    start(submit(alice, project), cluster.node(1))
    with pytest.raises(Conflict):
        retire_node(actor=root, node=cluster.node(1))

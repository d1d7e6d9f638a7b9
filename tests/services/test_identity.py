"""A second machine that speaks as a node that is there already."""

from __future__ import annotations

import pytest
from django.db import transaction

from scheduler.conf import load_conf
from scheduler.loop.reaping import reap
from scheduler.models import Node, Placement
from scheduler.services.errors import Conflict
from scheduler.services.jobs import cancel_job
from scheduler.services.nodes import resume_node
from scheduler.states import AttemptState, EndReason, JobState, NodeState
from scheduler.wire.messages import DeviceFacts
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
COPY = "boot-copy"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root)


def _state(node: Node) -> tuple[str, str]:
    node.refresh_from_db()
    return node.state, node.trouble


def _refused(node: Node, now) -> str:
    with pytest.raises(Conflict) as refused:
        sync(node, boot_id=COPY, sent_at=now.timestamp(), now=now)
    node.refresh_from_db()
    return refused.value.code


def test_of_a_copied_identity_the_second_machine_gets_nothing_and_the_node_no_new_work(
    cluster, root, alice, project
):
    node = cluster.node(1)
    attempt = start(submit(alice, project), node)
    sync(node, running(attempt), now=at(1), sent_at=at(1).timestamp())
    assert _refused(node, at(5)) == "node_identity_in_use"
    assert _state(node) == (NodeState.READY, "")

    # A call that was under way when the other spoke proves nothing.
    sync(node, now=at(6), sent_at=at(5).timestamp())
    assert _state(node) == (NodeState.READY, "")
    reply = sync(node, running(attempt), now=at(11), sent_at=at(11).timestamp())
    assert reply.node_state == NodeState.QUARANTINED, "but what runs there goes on"
    assert _state(node) == (NodeState.QUARANTINED, "copied")
    assert "two machines" in node.state_reason and "boot-cop" in node.state_reason
    assert _refused(node, at(12)) == "node_identity_conflict"
    assert _refused(node, at(3600)) == "node_identity_conflict", "however long the first is away"

    # The node's own word does not end it, an operator's does.
    sync(node, troubles=(), now=at(3601), sent_at=at(3601).timestamp())
    assert _state(node) == (NodeState.QUARANTINED, "copied")
    resume_node(actor=root, node=node, now=at(3610))
    assert _state(node) == (NodeState.READY, "")
    assert node.rival is None


def test_a_machine_that_was_started_again_is_taken_up_once_the_lease_is_over(cluster):
    node = cluster.node(1)
    sync(node, now=at(0), sent_at=at(0).timestamp())
    assert _refused(node, at(5)) == "node_identity_in_use"
    over = at(load_conf().node_lease_s + 1)
    sync(node, boot_id=COPY, now=over, sent_at=over.timestamp())
    node.refresh_from_db()
    assert (node.boot_id, node.rival, node.state) == (COPY, None, NodeState.READY)


def _speaks(node: Node, agent: str, second: float, sent: float | None = None) -> str:
    moment = at(second if sent is None else sent).timestamp()
    sync(node, agent_id=agent, now=at(second), sent_at=moment)
    return _state(node)[1]


def test_two_agents_of_one_boot_that_speak_in_turn_are_two(cluster, root):
    node = cluster.node(1)
    assert [_speaks(node, who, s) for who, s in (("old", 0), ("new", 5))] == ["", ""]
    # A late call of the old one, from before the new one began, and what follows it.
    assert _speaks(node, "old", 6, sent=4) == ""
    assert _speaks(node, "new", 7) == ""
    assert _speaks(node, "old", 12) == "copied"
    assert node.state == NodeState.QUARANTINED and "of one boot" in node.state_reason
    with pytest.raises(Conflict) as refused:
        _speaks(node, "new", 13)
    assert refused.value.code == "node_identity_conflict"
    assert _speaks(node, "old", 14) == "copied", "and goes on to report"
    resume_node(actor=root, node=node, now=at(20))
    assert _speaks(node, "old", 21) == "" and node.rival is None


def test_an_agent_that_is_started_again_and_again_is_one(cluster):
    node = cluster.node(1)
    assert {_speaks(node, f"start-{n}", 3.0 * n) for n in range(6)} == {""}
    # Another machine is still told from it.
    assert _refused(node, at(20)) == "node_identity_in_use"
    assert node.rival["boot_id"] == COPY


def _after(seconds: float):
    return at(load_conf().node_lease_s + seconds)


def _gone_at() -> float:
    return scenes.given_up_after().total_seconds() + 2


@pytest.mark.parametrize("is_reported", [True, False])
def test_who_takes_a_silent_nodes_place_is_never_told_what_that_one_was_given(
    cluster, alice, project, is_reported
):
    """A copy of its disk from before looks like a machine that was started again."""
    node = cluster.node(1)
    job = submit(alice, project)
    attempt = start(job, node)
    sync(node, *([running(attempt)] if is_reported else []), now=at(1), sent_at=at(1).timestamp())
    for second in (5, 90, 300):
        moment = _after(second)
        reply = sync(
            node, boot_id=COPY, agent_id="copy", now=moment, sent_at=moment.timestamp(), protocol=3
        )
        assert (reply.assignments, reply.kept) == ((), ())
        reap(now=moment)
    # New work it gets, on what the other does not hold.
    other = start(submit(alice, project, name="other"), node, now=_after(310))
    fields = {"boot_id": COPY, "agent_id": "copy"}
    reply = sync(node, now=_after(311), sent_at=_after(311).timestamp(), **fields)
    assert [order.fence for order in reply.assignments] == [other.pk]
    assert _state(node) == (NodeState.READY, "")

    # Whoever guards the program where the first one was given it has ended it by then.
    reap(now=at(_gone_at() - 3))
    attempt.refresh_from_db()
    assert attempt.state != AttemptState.ENDED, "its devices stay held"
    last = at(_gone_at())
    sync(node, running(other), now=last, sent_at=last.timestamp(), **fields)
    reap(now=last)
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert (attempt.state, attempt.end_reason) == (AttemptState.ENDED, EndReason.NODE_LOST)
    assert job.state == JobState.QUEUED, "it waits for another attempt, under another fence"
    other.refresh_from_db()
    assert other.state == AttemptState.RUNNING


def test_what_was_never_told_or_lay_on_cards_that_are_here_is_begun(cluster, alice, project):
    """A machine that went down and came back is given what waits for it."""
    node, moment = cluster.node(1), _after(5)
    sync(node, now=at(1), sent_at=at(1).timestamp())
    told = start(submit(alice, project), node, now=at(2))
    untold = start(submit(alice, project, name="later"), node, now=at(40))
    cards = tuple(
        DeviceFacts(f"GPU-SIM-n1-{index}", index, "H100", 81920, simulated=False)
        for index in range(2)
    )
    fields = {"boot_id": COPY, "agent_id": "copy", "now": moment, "sent_at": moment.timestamp()}
    with transaction.atomic():
        node.refresh_from_db()
        reply = sync(node, devices=cards, **fields)
        assert [order.fence for order in reply.assignments] == [told.pk, untold.pk]
        transaction.set_rollback(True)
    node.refresh_from_db()
    reply = sync(node, devices=cards[1:], **fields)
    assert [order.fence for order in reply.assignments] == [untold.pk]


def test_a_stop_is_not_told_to_who_never_had_it(cluster, alice, project):
    """It would call ended what may still run elsewhere."""
    node = cluster.node(1)
    job = submit(alice, project)
    attempt = start(job, node)
    sync(node, running(attempt), now=at(1), sent_at=at(1).timestamp())
    cancel_job(actor=alice, job=job, now=at(2))
    moment = _after(5)
    reply = sync(node, boot_id=COPY, agent_id="copy", now=moment, sent_at=moment.timestamp())
    assert reply.assignments == ()
    moment = _after(300)
    sync(node, boot_id=COPY, agent_id="copy", now=moment, sent_at=moment.timestamp())
    reap(now=moment)
    assert _state(node)[0] == NodeState.READY, "it is not to blame that it does not stop"
    reap(now=at(_gone_at()))
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED


def test_a_machine_that_was_started_again_says_what_became_of_its_work(cluster, alice, project):
    """It keeps its spool: nothing waits for the grace of anybody."""
    node = cluster.node(1)
    job = submit(alice, project)
    attempt = start(job, node)
    sync(node, running(attempt), now=at(1), sent_at=at(1).timestamp())
    moment = _after(5)
    report = ended(attempt, reason=EndReason.NODE_LOST, exit_code=None)
    sync(node, report, boot_id=COPY, agent_id="next", now=moment, sent_at=moment.timestamp())
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_a_new_agent_of_the_same_start_gets_what_the_last_had_no_time_for(cluster, alice, project):
    """What that one has reported lay in its spool; without it this is another's folder."""
    node = cluster.node(1)
    had, fresh = (start(submit(alice, project, name=name), node) for name in ("had", "fresh"))
    sync(node, running(had), now=at(1), sent_at=at(1).timestamp())
    node.refresh_from_db()
    reply = sync(node, agent_id="agent-2", now=at(5), sent_at=at(5).timestamp())
    assert [order.fence for order in reply.assignments] == [fresh.pk]
    # The first one speaks after all.
    node.refresh_from_db()
    reply = sync(node, running(had), now=at(8), sent_at=at(8).timestamp())
    assert had.pk in [order.fence for order in reply.assignments]
    assert not Placement.objects.filter(attempt=had, left_since__isnull=False)


def test_a_machine_that_was_started_between_enrolment_and_its_first_call_gets_its_work(
    cluster, alice, project
):
    """Nobody has spoken for this node yet, so nobody was told what it was given meanwhile."""
    node = cluster.node(1)
    attempt = start(submit(alice, project, now=at(2)), node, now=at(2))
    reply = sync(node, boot_id="boot-2", now=_after(60))
    assert [one.fence for one in reply.assignments] == [attempt.pk]
    assert not Placement.objects.filter(attempt=attempt, left_since__isnull=False)

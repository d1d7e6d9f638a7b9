"""Whoever decides about a node, while a start or a stop there is under way."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction

from scheduler.models import Device, Node
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.history import change_desired
from scheduler.services.nodes import drain_node, resume_node, retire_node
from scheduler.services.nodes.power import say_node_is_off
from scheduler.services.nodes.quarantine import quarantine_by_hand
from scheduler.services.reaping import mark_lost, mark_silent
from tests import factories, scenes
from tests.locks import wait_until_somebody_waits
from tests.scenes import NOON, at, running, start, submit, sync

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]

LATER = at(3 * 3600)


class Other(threading.Thread):
    """Takes the first locks of a start or a stop, and the node's once somebody waits for those."""

    def __init__(self, node: Node, attempt_id: int = 0) -> None:
        super().__init__()
        self.node_id, self.attempt_id = node.pk, attempt_id
        self.has_first = threading.Event()
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            with transaction.atomic():
                if self.attempt_id:
                    assert locked_live_attempt(self.attempt_id)
                else:
                    list(Device.objects.select_for_update().filter(node=self.node_id))
                self.has_first.set()
                wait_until_somebody_waits()
                change_desired([self.node_id])
        except Exception as problem:
            self.problem = problem
        finally:
            self.has_first.set()
            connections.close_all()


def _silent(node: Node, root) -> None:
    assert mark_silent(now=at(600)) == 1


def _drained(node: Node, root) -> None:
    drain_node(actor=root, node=node, now=NOON)


def _called_off_once(node: Node, root) -> None:
    _silent(node, root)
    say_node_is_off(actor=root, node=node, reason="no lamp is on", now=at(601))


def _called_off(node: Node, root) -> None:
    second = factories.person("second", is_superuser=True)
    say_node_is_off(actor=second, node=node, reason="I saw it", now=at(602))


# By its name: what comes before, what is done, whether it also ends attempts.
ACTS = {
    "drain": (None, lambda node, root: drain_node(actor=root, node=node), False),
    "drain and stop": (
        None,
        lambda node, root: drain_node(actor=root, node=node, stop_jobs=True),
        True,
    ),
    "resume": (_drained, lambda node, root: resume_node(actor=root, node=node), False),
    "quarantine": (
        None,
        lambda node, root: quarantine_by_hand(actor=root, node=node, reason="smoke"),
        False,
    ),
    "lost": (_silent, lambda node, root: mark_lost(now=LATER), True),
    "called off": (_called_off_once, _called_off, True),
    "a clock that is off": (
        None,
        lambda node, root: sync(node, now=NOON, sent_at=NOON.timestamp() + 3600),
        False,
    ),
}


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, gpus=2).node(1)


@pytest.fixture
def attempt(node, alice, project):
    found = start(submit(alice, project), node, now=NOON)
    sync(node, running(found), now=at(1))
    return found


def _meet(other: Other, act, node: Node, root) -> None:
    other.start()
    assert other.has_first.wait(30)
    act(node, root)
    other.join(60)
    assert not other.is_alive() and other.problem is None


@pytest.mark.parametrize("name", ACTS)
def test_it_waits_for_a_start_before_it_locks_the_node(node, attempt, root, name):
    before, act, _ = ACTS[name]
    if before:
        before(node, root)
    _meet(Other(node), act, Node.objects.get(pk=node.pk), root)


@pytest.mark.parametrize("name", [name for name, (_, _, ends) in ACTS.items() if ends])
def test_it_waits_for_a_stop_before_it_locks_the_node(node, attempt, root, name):
    before, act, _ = ACTS[name]
    if before:
        before(node, root)
    _meet(Other(node, attempt.pk), act, Node.objects.get(pk=node.pk), root)


def test_retiring_waits_too(node, root):
    """Of a node on which nothing runs."""
    _meet(Other(node), lambda node, root: retire_node(actor=root, node=node), node, root)

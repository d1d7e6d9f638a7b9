"""A node's token is replaced: offered until it is used, and by its use."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from scheduler.models import Node
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.nodes import authenticate_node, enrol_node, issue_node_token, retire_node
from scheduler.services.nodes.credentials import OLD_TOKEN_S, renew_old_tokens, renew_token
from scheduler.states import NodeState
from tests import scenes
from tests.scenes import NOON, at, enrol_request, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=0)


@pytest.fixture
def enrolled(cluster, root):
    """A node and its first token."""
    _, secret = issue_node_token(actor=root, pool=cluster.pool, now=NOON)
    reply = enrol_node(request=enrol_request(secret, "gpu-07", 2), now=NOON)
    return Node.objects.get(name="gpu-07"), reply.node_token


def _offer(token: str, second: float, *, takes: bool = True) -> str:
    """What a call with this token is offered."""
    node = authenticate_node(token, now=at(second))
    assert node is not None
    return sync(node, now=at(second), takes_token=takes).next_token


def test_the_first_use_of_an_offered_token_ends_the_one_before(enrolled, root):
    node, first = enrolled
    assert _offer(first, 1) == ""
    revision = Node.objects.get().desired_revision
    renew_token(actor=root, node=node, now=at(2))
    assert Node.objects.get().desired_revision > revision, "a held call is answered"
    second = _offer(first, 3)
    assert second.startswith("tya_") and second != first
    assert _offer(first, 4) == second, "an answer that was lost is given again"
    assert _offer(second, 5) == ""

    kept = AuditEvent.objects.filter(action__startswith="node.").order_by("pk")
    assert [event.action for event in kept][-2:] == ["node.offer_token", "node.renew_token"]
    assert all(second not in str(event.after) for event in kept)
    # Calls under way end well; later ones, and a copy that has no other, are refused.
    assert _offer(first, 5 + OLD_TOKEN_S - 1) == ""
    assert authenticate_node(first, now=at(5 + OLD_TOKEN_S)) is None
    assert _offer(second, 3600) == ""
    assert first not in str(Node.objects.values_list()) and second not in str(
        Node.objects.values_list()
    )


def test_an_agent_that_does_not_take_one_keeps_its_own(enrolled, root):
    node, first = enrolled
    renew_token(actor=root, node=node, now=at(2))
    assert _offer(first, 3, takes=False) == ""
    assert _offer(first, 10**6, takes=False) == ""
    assert _offer(first, 10**6 + 1) != "", "until it is updated"


def test_asked_for_again_it_is_the_same_renewal(enrolled, root, alice, settings):
    node, first = enrolled
    with pytest.raises(Forbidden):
        renew_token(actor=alice, node=node)
    renew_token(actor=root, node=node, now=at(2))
    second = _offer(first, 3)
    renew_token(actor=root, node=node, now=at(4))
    assert _offer(first, 5) == second
    # The portal's own key was changed.
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key " * 5, [settings.SECRET_KEY]
    assert _offer(first, 6) == second
    settings.SECRET_KEY_FALLBACKS = []
    assert _offer(first, 7) == ""
    renew_token(actor=root, node=node, now=at(8))
    third = _offer(first, 9)
    assert third not in ("", second)
    assert authenticate_node(second, now=at(10)) is None
    assert _offer(third, 10) == ""


def test_old_tokens_are_renewed_by_time(enrolled, settings):
    _, first = enrolled
    late = NOON + timedelta(days=30, seconds=5)
    assert renew_old_tokens(now=late - timedelta(seconds=10)) == 0
    assert [renew_old_tokens(now=late) for _ in range(2)] == [1, 0], "one of two begins it"
    second = _offer(first, (late - NOON).total_seconds() + 1)
    assert _offer(second, (late - NOON).total_seconds() + 2) == ""
    assert renew_old_tokens(now=late + timedelta(days=29)) == 0
    settings.TRAINYARD = {**settings.TRAINYARD, "node_token_days": 0}
    assert renew_old_tokens(now=late + timedelta(days=300)) == 0


def test_two_first_uses_are_one_node(enrolled, root):
    node, first = enrolled
    renew_token(actor=root, node=node, now=at(2))
    second = _offer(first, 3)
    before = [Node.objects.get(), Node.objects.get()]
    found = [authenticate_node(second, now=at(4 + n)) for n, _ in enumerate(before)]
    assert [each and each.pk for each in found] == [node.pk, node.pk]
    assert node.events.filter(kind="token_renewed").count() == 1


def test_a_retired_node_has_no_token_of_any_kind(enrolled, root):
    node, first = enrolled
    renew_token(actor=root, node=node, now=at(2))
    second = _offer(first, 3)
    _offer(second, 4)
    renew_token(actor=root, node=node, now=at(5))
    third = _offer(second, 6)
    node.refresh_from_db()
    retire_node(actor=root, node=node, now=at(7))
    assert [authenticate_node(each, now=at(8)) for each in (first, second, third)] == [None] * 3
    with pytest.raises(Conflict):
        renew_token(actor=root, node=node, now=at(9))


def test_enrolled_again_what_was_offered_before_is_nothing(enrolled, root, cluster):
    node, first = enrolled
    renew_token(actor=root, node=node, now=at(2))
    second = _offer(first, 3)
    Node.objects.filter(pk=node.pk).update(state=NodeState.LOST)
    _, secret = issue_node_token(actor=root, pool=cluster.pool, now=at(4))
    fresh = enrol_node(request=enrol_request(secret, "gpu-07", 2), now=at(5)).node_token
    assert [authenticate_node(each, now=at(6)) for each in (first, second)] == [None, None]
    assert authenticate_node(fresh, now=at(6)) is not None

"""Enrolment tokens that are open: operators see and revoke them, nobody else does."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from accounts.models import AuditEvent
from scheduler.models import Node, NodeToken
from scheduler.services.errors import Forbidden
from scheduler.services.nodes import enrol_node, issue_node_token
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool(root):
    return scenes.build_cluster(root, nodes=1).pool


@pytest.fixture
def made(operator, pool):
    """An open token and its secret."""
    return issue_node_token(actor=operator, pool=pool, minutes=30)


def revoke(client, token, **extra):
    return client.post(reverse("nodes:token_revoke", args=[token.pk]), **extra)


def test_an_operator_revokes_a_token_and_no_node_comes_in_by_it(client, operator, made):
    token, secret = made
    client.force_login(operator)
    page = client.get(reverse("nodes:enrol"))
    assert list(page.context["open_tokens"]) == [token]
    assert "operator" in page.content.decode() and secret not in page.content.decode()
    said = revoke(client, token, follow=True)
    assert "is revoked" in said.content.decode() and list(said.context["open_tokens"]) == []
    event = AuditEvent.objects.get(action="node.revoke_token")
    assert (event.actor_name, event.subject_id) == ("operator", str(token.pk))
    with pytest.raises(Forbidden):
        enrol_node(request=scenes.enrol_request(secret, "gpu-77", 1))
    assert not Node.objects.filter(name="gpu-77").exists()


def test_others_neither_see_nor_revoke_them(client, alice, made):
    token, _ = made
    client.force_login(alice)
    assert revoke(client, token).status_code == 403
    assert client.post(reverse("nodes:token_revoke", args=[10**9])).status_code == 403
    assert client.get(reverse("nodes:token_revoke", args=[token.pk])).status_code == 405
    token.refresh_from_db()
    assert token.expires_at > timezone.now()


def test_a_used_token_is_not_open_and_says_so(client, operator, made):
    token, secret = made
    enrol_node(request=scenes.enrol_request(secret, "gpu-77", 1))
    client.force_login(operator)
    said = revoke(client, token, follow=True)
    assert "A node has used this token already" in said.content.decode()
    assert list(said.context["open_tokens"]) == []
    assert Node.objects.filter(name="gpu-77").exists()
    assert not AuditEvent.objects.filter(action="node.revoke_token").exists()


def test_an_expired_token_is_not_open_and_says_so(client, operator, made):
    token, _ = made
    ended = timezone.now() - timedelta(seconds=1)
    NodeToken.objects.filter(pk=token.pk).update(expires_at=ended)
    client.force_login(operator)
    said = revoke(client, token, follow=True)
    assert "has ended already" in said.content.decode()
    assert list(said.context["open_tokens"]) == []
    token.refresh_from_db()
    assert token.expires_at == ended


def test_a_token_that_never_was_is_not_found(client, operator, pool):
    client.force_login(operator)
    assert client.post(reverse("nodes:token_revoke", args=[10**9])).status_code == 404


def test_as_many_tokens_as_there_are_cost_the_same(
    client, operator, pool, django_assert_num_queries, django_assert_max_num_queries
):
    client.force_login(operator)
    url = reverse("nodes:enrol")
    issue_node_token(actor=operator, pool=pool)
    client.get(url)
    with django_assert_max_num_queries(20) as few:
        client.get(url)
    for _ in range(8):
        issue_node_token(actor=operator, pool=pool)
    with django_assert_num_queries(len(few)):
        assert len(client.get(url).context["open_tokens"]) == 9

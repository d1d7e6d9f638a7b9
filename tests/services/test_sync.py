"""A node's call and a stop of what runs on it, at once."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction

from scheduler.models import Attempt, Node
from scheduler.services.stopping import request_stop
from scheduler.states import AttemptState, EndReason
from tests import scenes
from tests.locks import wait_until_somebody_waits
from tests.scenes import NOON, at, ended, running, start, submit


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_call_and_a_stop_wait_for_each_other_in_one_order(root, alice, project):
    cluster = scenes.build_cluster(root)
    node = cluster.node(1)
    attempt = start(submit(alice, project), node)
    scenes.sync(node, running(attempt), now=NOON)
    has_attempt, told = threading.Event(), []

    def stop():
        try:
            with transaction.atomic():
                mine = Attempt.objects.select_related("job__pool").get(pk=attempt.pk)
                Attempt.objects.select_for_update().get(pk=attempt.pk)
                has_attempt.set()
                wait_until_somebody_waits()
                told.append(request_stop(attempt=mine, reason=EndReason.TIME_LIMIT, now=at(2)))
        except Exception as error:
            told.append(error)
        finally:
            connections.close_all()

    other = threading.Thread(target=stop)
    other.start()
    assert has_attempt.wait(30)
    # A list of what ails it, if only an empty one, is heard alone.
    scenes.sync(node, ended(attempt), now=at(3), troubles=())
    other.join(60)
    assert told == [True]
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.ENDED
    assert Node.objects.get(pk=node.pk).last_seen_at == at(3)

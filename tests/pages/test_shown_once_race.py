"""Two forms of one key at once: one makes what the other is told was made."""

from __future__ import annotations

import re
import threading

import pytest
from django.db import connections
from django.test import RequestFactory

from accounts.errors import Conflict
from portal.serving.once import form_key, made_once
from scheduler.models import NodeToken
from scheduler.services.nodes import issue_node_token
from tests import scenes

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


def test_of_two_that_come_at_once_one_makes_a_token(root):
    pool = scenes.build_cluster(root, nodes=0).pool
    key = re.search(r'value="([^"]+)"', form_key())[1]
    gate, answers = threading.Barrier(4), []

    def send() -> None:
        request = RequestFactory().post("/", {"form_key": key})
        try:
            gate.wait()
            made_once(request, "already", issue_node_token, actor=root, pool=pool)
            answers.append("made")
        except Conflict as refused:
            answers.append(refused.code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(answers) == ["made", *["made_already"] * 3]
    assert NodeToken.objects.count() == 1

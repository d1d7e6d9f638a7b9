"""Operators are told of nodes in trouble: once for each, and not of every node of a wave."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.conf import load_conf
from scheduler.models import Node, Notification, OutboundMail
from scheduler.services import reaping
from scheduler.services.errors import Conflict
from scheduler.services.inbox import choose_kind
from scheduler.services.inbox.mailing import write_mails
from scheduler.services.inbox.operating import MOST_OF_A_WAVE
from scheduler.services.logs import append_log
from scheduler.services.nodes import drain_node, resume_node
from scheduler.services.nodes.quarantine import quarantine_by_hand
from scheduler.states import NoticeKind
from scheduler.wire.messages import TroubleReport
from tests import scenes
from tests.scenes import NOON, at, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root, operator):
    return scenes.build_cluster(root, nodes=3, gpus=2)


@pytest.fixture
def node(cluster):
    return cluster.node(1)


def told(person):
    rows = Notification.objects.filter(person=person, kind=NoticeKind.NODE_TROUBLE)
    return [(row.title, row.text, row.path) for row in rows.order_by("pk")]


def tell(node: Node, *troubles: tuple[int | None, str, str], s: int) -> None:
    node.refresh_from_db()
    uuids = dict(node.devices.values_list("index", "uuid"))
    reports = tuple(
        TroubleReport(kind, uuids.get(index, ""), detail, NOON.timestamp() + s)
        for index, kind, detail in troubles
    )
    sync(node, now=at(s), troubles=reports)


def lose(s: int) -> None:
    late = at(s) + scenes.given_up_after() + timedelta(seconds=1)
    reaping.mark_silent(now=at(s) + load_conf().node_lease + timedelta(seconds=1))
    assert reaping.mark_lost(now=late)


def test_a_gpu_out_of_service_is_told_of_once(node, operator, root, alice):
    tell(node, (0, "xid", "Xid 79"), s=1)
    tell(node, (0, "xid", "Xid 79"), s=11)
    page = f"/cluster/nodes/{node.name}/"
    ((title, text, path),) = told(operator)
    assert (title, path) == (f"Node {node.name} has a GPU out of service", page)
    assert text.startswith("GPU 0: ") and text.endswith("(Xid 79).")
    assert len(told(root)) == 1 and told(alice) == []
    tell(node, (0, "xid", "Xid 79"), (1, "xid", "Xid 48"), s=21)
    assert [text[:5] for _, text, _ in told(operator)] == ["GPU 0", "GPU 1"]


def test_what_a_node_is_out_of_service_for_is_told_once_an_hour(cluster, node, operator):
    tell(node, (None, "disk_full", "3 MiB are left"), s=1)
    tell(node, s=60)
    tell(node, (None, "disk_full", "2 MiB are left"), s=120)
    ((title, text, _),) = told(operator)
    assert title == f"Node {node.name} is out of service" and "3 MiB" in text
    tell(cluster.node(2), (None, "disk_full", "1 MiB are left"), s=130)
    assert len(told(operator)) == 2
    tell(node, s=180)
    tell(node, (None, "disk_full", "2 MiB are left"), s=3700)
    assert len(told(operator)) == 3


def test_of_a_wave_of_lost_nodes_the_first_are_told(cluster, operator):
    for number in range(4, 8):
        scenes.add_node(cluster, f"n{number}", 2)
    for each in cluster.nodes:
        sync(each, now=at(0))
    lose(0)
    assert Node.objects.filter(state="lost").count() == 7
    news = told(operator)
    assert [title.partition(" was ")[2] for title, *_ in news] == ["lost"] * MOST_OF_A_WAVE
    assert ["one by one" in text for _, text, _ in news] == [False] * 4 + [True]


def test_other_bytes_of_a_log_and_a_copy_are_told_of(node, operator, alice, project):
    attempt = start(submit(alice, project), node)
    sync(node, running(attempt), now=at(1), sent_at=at(1).timestamp())
    append_log(node=node, fence=attempt.pk, rank=0, offset=0, body=b"hello\n", now=at(2))
    for s in (3, 4):
        with pytest.raises(Conflict):
            append_log(node=node, fence=attempt.pk, rank=0, offset=0, body=b"hellO\n", now=at(s))
    assert [title for title, *_ in told(operator)] == [
        f"Node {node.name} sent other bytes of a log than before"
    ]
    node.refresh_from_db()
    with pytest.raises(Conflict):
        sync(node, boot_id="boot-copy", sent_at=at(5).timestamp(), now=at(5))
    node.refresh_from_db()
    sync(node, running(attempt), now=at(11), sent_at=at(11).timestamp())
    title, text, _ = told(operator)[-1]
    assert title == f"Node {node.name} is out of service" and "Two machines" in text


def test_what_a_person_does_is_no_trouble(node, operator, root):
    quarantine_by_hand(actor=root, node=node, reason="a fan", now=at(1))
    resume_node(actor=root, node=node, now=at(2))
    drain_node(actor=root, node=node, now=at(3))
    assert told(operator) == []


def test_who_wants_no_mail_of_it_gets_none(node, operator, root):
    for person in (operator, root):
        person.email = f"{person.username}@example.org"
        person.save()
    choose_kind(actor=root, kind=NoticeKind.NODE_TROUBLE, in_inbox=True, by_mail=False)
    tell(node, (0, "xid", "Xid 79"), s=1)
    write_mails(now=at(2))
    assert [mail.person_id for mail in OutboundMail.objects.all()] == [operator.pk]
    assert len(told(root)) == 1

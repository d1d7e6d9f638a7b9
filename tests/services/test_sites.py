"""Operators say where nodes stand, what they have, and which licences there are."""

from __future__ import annotations

import pytest

from scheduler.models import Licence, NodeEvent
from scheduler.selectors.sharing.licences import licence_views
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.jobs import cancel_job
from scheduler.services.sites.datasets import set_dataset
from scheduler.services.sites.licences import remove_licence, set_licence
from scheduler.services.sites.places import label_node, place_node
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.scenes import NOON, start, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def test_a_node_is_placed_and_labelled_and_its_history_says_so(cluster, root):
    node = cluster.node(1)
    place_node(actor=root, node=node, rack="r1", block="b1", now=NOON)
    label_node(actor=root, node=node, labels={"network": "ib"}, now=NOON)
    node.refresh_from_db()
    assert (node.rack, node.block, node.labels) == ("r1", "b1", {"network": "ib"})
    events = NodeEvent.objects.filter(node=node).order_by("pk")
    told = [(one.kind, one.detail["reason"]) for one in events if one.kind != "enrolled"]
    assert told == [("placed", "rack r1 in block b1"), ("labelled", "network=ib")]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"Network": "ib"}, "network=ib"),
        ({"network": "a b"}, "network=ib"),
        ({"rack": "r1"}, "another label"),
        ({f"l{number}": "x" for number in range(33)}, "at most 32"),
    ],
)
def test_labels_that_cannot_be_asked_for_are_refused(cluster, root, labels, words):
    with pytest.raises(Invalid, match=words) as caught:
        label_node(actor=root, node=cluster.node(1), labels=labels)
    assert caught.value.field == "labels"


def test_only_operators_speak_for_the_site(cluster, alice):
    with pytest.raises(Forbidden):
        place_node(actor=alice, node=cluster.node(1), rack="r1")
    with pytest.raises(Forbidden):
        label_node(actor=alice, node=cluster.node(1), labels={})
    with pytest.raises(Forbidden):
        set_licence(actor=alice, name="sim", total=1)
    with pytest.raises(Forbidden):
        set_dataset(actor=alice, name="mnist", size="1GiB")
    assert not Licence.objects.exists()


def test_a_licence_counts_what_live_jobs_hold(cluster, root, alice, project):
    licence = set_licence(actor=root, name="sim", total=3)
    job = submit(alice, project, licences={"sim": 2})
    assert [view.held for view in licence_views(alice)] == [0]
    start(job, cluster.node(1))
    assert [(view.licence.total, view.held) for view in licence_views(alice)] == [(3, 2)]
    with pytest.raises(Conflict, match=f"#{job.pk}"):
        remove_licence(actor=root, licence=licence)


def test_a_licence_that_nobody_asks_for_is_forgotten(cluster, root, alice, project):
    set_licence(actor=root, name="sim", total=3)
    licence = set_licence(actor=root, name="sim", total=1)
    assert licence.total == 1
    job = submit(alice, project, licences={"sim": 1})
    with pytest.raises(Conflict):
        remove_licence(actor=root, licence=licence)
    cancel_job(actor=alice, job=job, now=NOON)
    remove_licence(actor=root, licence=licence)
    assert not Licence.objects.exists()


@pytest.mark.parametrize(("name", "total"), [("Sim", 1), ("", 1), ("sim", -1), ("sim", 2**40)])
def test_silly_licences_are_refused_by_field(root, cluster, name, total):
    with pytest.raises(Invalid) as caught:
        set_licence(actor=root, name=name, total=total)
    assert caught.value.field == ("total" if name == "sim" else "name")


@pytest.mark.parametrize(
    ("licences", "words"),
    [({"solver": 1}, "there is no licence solver; known are: sim"), ({"sim": 4}, "3 tokens")],
)
def test_what_nobody_keeps_is_refused_at_submit(cluster, root, alice, project, licences, words):
    set_licence(actor=root, name="sim", total=3)
    with pytest.raises(SpecInvalid) as caught:
        submit(alice, project, licences=licences)
    assert [problem.field for problem in caught.value.problems] == ["licences"]
    assert words in caught.value.problems[0].message

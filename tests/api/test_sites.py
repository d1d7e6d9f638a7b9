"""Places, labels and licences over REST."""

from __future__ import annotations

import pytest

from scheduler.services.nodes.data import store_data
from scheduler.wire.data import DataCopy, DataReport
from tests.api.conftest import problem_of

pytestmark = pytest.mark.django_db


def test_an_operator_places_and_labels_a_node(program, cluster, root):
    caller = program(root)
    placed = caller.post("/nodes/n1/place/", {"rack": "r1", "block": "b1"}).json()
    assert (placed["rack"], placed["block"]) == ("r1", "b1")
    labelled = caller.post("/nodes/n1/labels/", {"labels": {"network": "ib"}}).json()
    assert labelled["labels"] == {"network": "ib"}
    assert caller.get("/nodes/n1/").json()["rack"] == "r1"
    problem = problem_of(caller.post("/nodes/n1/place/", {"rack": "no spaces"}), 422)
    assert problem["errors"][0]["field"] == "rack"


def test_data_sets_are_told_copied_and_forgotten(program, cluster, root, alice):
    caller = program(root)
    problem_of(program(alice).post("/datasets/", {"name": "laion", "size": "4GiB"}), 403)
    problem_of(caller.post("/datasets/", {"name": "laion", "size": "much"}), 422)
    assert caller.post("/datasets/", {"name": "laion", "size": "4GiB"}).status_code == 200
    problem_of(caller.post("/datasets/laion/copies/", {"node": "nowhere"}), 400)
    problem_of(caller.post("/datasets/mnist/copies/", {"node": "n1"}), 404)
    caller.post("/datasets/laion/copies/", {"node": "n1"})
    (item,) = program(alice).get("/datasets/").json()["items"]
    assert (item["size_mib"], item["copies"][0]["node"], item["copies"][0]["held_mib"]) == (
        4096,
        "n1",
        None,
    )
    assert item["found"] == []
    store_data(cluster.node(1), DataReport((DataCopy("laion", 512), DataCopy("own", 1)), "9 more"))
    (item,) = program(alice).get("/datasets/").json()["items"]
    assert item["found"] == [{"node": "n1", "held_mib": 512}]
    node = program(alice).get("/nodes/n1/").json()
    assert node["datasets"][1] == {"name": "own", "size_mib": 1}
    assert node["datasets_problem"] == "9 more"
    assert caller.post("/datasets/laion/remove/").json()["items"] == []


def test_licences_are_set_listed_and_removed(program, cluster, root, alice):
    caller = program(root)
    made = caller.post("/licences/", {"name": "sim", "total": 3})
    assert made.json()["items"] == [{"name": "sim", "total": 3, "held": 0}]
    assert program(alice).get("/licences/").json() == made.json()
    assert caller.post("/licences/sim/remove/").json()["items"] == []
    problem_of(caller.post("/licences/sim/remove/"), 404)
    problem_of(caller.post("/licences/", {"name": "sim", "total": -1}), 422)


def test_strangers_change_nothing(program, cluster, alice):
    caller = program(alice)
    problem_of(caller.post("/nodes/n1/place/", {"rack": "r1"}), 403)
    problem_of(caller.post("/nodes/n1/labels/", {"labels": {}}), 403)
    problem_of(caller.post("/licences/", {"name": "sim", "total": 3}), 403)

"""Bookings on a node with cards of several models, and whose these are then."""

from __future__ import annotations

import pytest

from scheduler.models import Allocation, Device
from scheduler.selectors.calendar.reserved import reserved_devices
from scheduler.services.bookings.requested import Fit, shape_of
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_bookings import HOUR, book

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=3, gpus=4)


def mix(cluster):
    """Of the first node two cards are A100 and two L40S."""
    node = cluster.node(1)
    for index, model in enumerate(("L40S", "A100", "L40S", "A100")):
        node.devices.filter(index=index).update(model=model)
    return node


def test_each_model_of_a_node_is_booked_by_itself(lead, project, cluster):
    node = mix(cluster)
    made = [
        book(lead, project, cluster, gpus_per_node=2, gpu_model=model) for model in ("A100", "L40S")
    ]
    assert [one.node_ids for one in made] == [[node.pk]] * 2
    owned = reserved_devices(now=at(HOUR))
    models = dict(node.devices.values_list("pk", "model"))
    assert {(models[device], one.gpu_model) for device, one in owned.items()} == {
        ("A100", "A100"),
        ("L40S", "L40S"),
    }
    with pytest.raises(Conflict):
        book(lead, project, cluster, gpus_per_node=1, gpu_model="A100")


@pytest.mark.parametrize("models", [("", "L40S"), ("L40S", "")])
def test_any_model_gets_what_the_others_leave(lead, project, cluster, models):
    """Whichever was booked first; the cards of lowest index are not the first choice then."""
    node = mix(cluster)
    Device.objects.exclude(node=node).update(is_present=False)
    for model in models:
        one = book(lead, project, cluster, gpus_per_node=2, gpu_model=model)
        assert one.node_ids == [node.pk]
    owned = reserved_devices(now=at(HOUR))
    found = dict(node.devices.values_list("pk", "model"))
    assert sorted((one.gpu_model, found[pk]) for pk, one in owned.items() if pk in found) == [
        ("", "A100"),
        ("", "A100"),
        ("L40S", "L40S"),
        ("L40S", "L40S"),
    ]


def test_whoever_asks_for_gpus_of_a_model_gets_no_others_along(root, cluster):
    """Each node has two of the model, and two others."""
    for node in cluster.nodes:
        node.devices.filter(index__lt=2).update(model="A100")
    assert shape_of(cluster.pool, "A100", 4) == Fit(2, 2)
    Device.objects.exclude(model="A100").update(is_present=False)
    assert shape_of(cluster.pool, "A100", 4) == Fit(2, 0)


def test_a_whole_node_counts_for_a_maximum_of_a_model_with_its_gpus_of_that_model(
    root, lead, project, cluster
):
    mix(cluster)
    set_quota(actor=root, owner=project, gpu_model="A100", maximum=1)
    with pytest.raises(Invalid, match="2 GPUs are more than the 1"):
        book(lead, project, cluster, gpu_model="A100")
    set_quota(actor=root, owner=project, gpu_model="A100", maximum=2)
    assert book(lead, project, cluster, gpu_model="A100")
    set_quota(actor=root, owner=project, maximum=3)
    with pytest.raises(Invalid, match="4 GPUs are more than the 3"):
        book(lead, project, cluster, gpu_model="A100", hours=(4, 5))


def test_of_a_whole_node_every_model_is_its_owners(lead, project, cluster):
    node = mix(cluster)
    booking = book(lead, project, cluster, gpu_model="A100")
    owned = reserved_devices(now=at(HOUR))
    assert booking.node_ids == [node.pk]
    assert set(owned) == set(node.devices.values_list("pk", flat=True))


def test_who_names_models_names_the_one_that_is_booked(lead, alice, project, cluster):
    mix(cluster)
    booking = book(lead, project, cluster, gpus_per_node=2, gpu_model="A100")
    with pytest.raises(SpecInvalid, match="is of A100; name that too, or none"):
        scenes.submit(
            alice, project, now=NOON, booking=str(booking.pk), gpu_models=["L40S", "V100"]
        )
    either = {"booking": str(booking.pk), "gpu_models": ["L40S", "A100"]}
    assert scenes.submit(alice, project, now=NOON, **either).booking == str(booking.pk)


def test_who_held_a_device_before_does_not_decide_whose_it_is(lead, alice, project, cluster):
    booking = book(lead, project, cluster, gpus_per_node=2)
    node = next(one for one in cluster.nodes if one.pk == booking.node_ids[0])
    inside = scenes.submit(alice, project, now=NOON, booking=str(booking.pk))
    held = scenes.start(inside, node, now=at(HOUR)).placements.get().allocations.get()
    outside = scenes.submit(alice, project, now=NOON)
    placement = scenes.start(outside, cluster.nodes[-1], now=at(HOUR)).placements.get()
    for _ in range(3):
        Allocation.objects.create(
            placement=placement, device=held.device, acquired_at=NOON, released_at=at(1)
        )
    owned = reserved_devices(now=at(HOUR))
    assert held.device_id in owned and len(owned) == 2

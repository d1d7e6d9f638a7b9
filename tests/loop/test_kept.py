"""What is kept from load to load changes nothing."""

import json
import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.services import set_rate
from scheduler.engine.checks import check_snapshot
from scheduler.engine.recording.coding import encode
from scheduler.engine.snapshot import ints
from scheduler.loop.loading import Kept, lent_rows, load_snapshot
from scheduler.loop.loading.columns import rows_of_ids, seconds_of
from scheduler.models import Allocation, Attempt, Device, Job, Node
from scheduler.models.cluster import slot_model
from scheduler.services.nodes import drain_node, resume_node, retire_node
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.states import AttemptState, DeviceHealth, JobState, NodeState
from tests import scenes
from tests.scenes import MODEL, NOON, TOKEN, at, ended, running, submit, sync

pytestmark = pytest.mark.django_db

STEPS = 26
# What jobs with GPUs ask for beside their number.
WISHES: tuple[dict[str, object], ...] = (
    {},
    {"gpu_models": ["H100", MODEL], "fallback_after": "10s"},
    {"constraints": ["node!=m2", "rack=\n"], "scratch": "1GiB", "exclusive": True},
)


class Walk:
    """One change of the cluster or its queue after the other, drawn with a seed."""

    def __init__(self, cluster, root, alice, project, seed):
        self.cluster, self.root, self.alice, self.project = cluster, root, alice, project
        self.draws, self.now = random.Random(seed), 0
        self.changes = [
            self.submit,
            self.start,
            self.end,
            self.add_node,
            self.drain,
            self.retire,
            self.fail_device,
            self.lose_device,
            self.rename_model,
            self.cut,
            self.wait_longer,
            lambda: None,
        ]

    def step(self, change):
        self.now += 10
        change()

    def submit(self):
        gpus = self.draws.choice([0, 1, 2])
        wishes = self.draws.choice(WISHES) if gpus else {}
        submit(self.alice, self.project, gpus_per_node=gpus, now=at(self.now), **wishes)

    def start(self):
        held = Allocation.objects.filter(released_at__isnull=True).values("device")
        free = Device.objects.filter(is_present=True, in_service=True, node__state=NodeState.READY)
        device = free.exclude(pk__in=held).first()
        job = Job.objects.filter(state=JobState.QUEUED, gpus_per_node=1).first()
        if device and job:
            placed = PlacedOn(device.node_id, 0, (device.pk,), job.cpus, job.memory_mib)
            start_attempts([Start(job.pk, (placed,))], lease_token=TOKEN, now=at(self.now))

    def end(self):
        attempt = Attempt.objects.filter(state=AttemptState.ASSIGNED).first()
        if attempt:
            node = attempt.placements.get().node
            sync(node, running(attempt), now=at(self.now))
            sync(node, ended(attempt), now=at(self.now + 1))

    def add_node(self):
        name = f"m{Node.objects.count() + 1}"
        scenes.add_node(self.cluster, name, 2, now=at(self.now))

    def drain(self):
        node = self._node()
        if node.state == NodeState.READY:
            drain_node(actor=self.root, node=node, now=at(self.now))
        else:
            resume_node(actor=self.root, node=node, now=at(self.now))

    def retire(self):
        spare = Node.objects.filter(state=NodeState.DRAINED).first()
        if spare and not spare.placements.filter(ended_at__isnull=True).exists():
            retire_node(actor=self.root, node=spare, now=at(self.now))

    def _node(self):
        return self.draws.choice(list(Node.objects.exclude(state=NodeState.RETIRED)))

    def fail_device(self):
        health = self.draws.choice([DeviceHealth.HEALTHY, DeviceHealth.SUSPECT])
        self._device().update(health=health)

    def lose_device(self):
        self._device().update(is_present=self.draws.random() < 0.5)

    def rename_model(self):
        self._device().update(model=self.draws.choice(["A100", "H100"]), link_group="b")

    def cut(self):
        cards = Device.objects.filter(parent__isnull=True, in_service=True, is_present=True)
        card = cards.filter(allocations__isnull=True).first()
        if card:
            set_rate(
                actor=self.root,
                device_model=slot_model(card.model, 2),
                price_per_gpu_hour=Decimal("1.00"),
                currency="EUR",
                valid_from=at(self.now - 60),
                restated_for="as if then",
            )
            cut_card(actor=self.root, device=card, slots=2, now=at(self.now))

    def wait_longer(self):
        queued = Job.objects.filter(state=JobState.QUEUED)
        queued.update(queued_at=at(self.draws.choice([0.5, self.now])))

    def _device(self):
        return Device.objects.filter(pk=self.draws.choice(list(Device.objects.all())).pk)


def content(now, kept):
    loaded = load_snapshot(now, kept=kept)
    check_snapshot(loaded.snapshot)
    return json.dumps([encode(loaded.snapshot), loaded.wait_reasons, encode(loaded.cells)])


def test_a_load_that_keeps_rows_equals_one_that_reads_all_anew(cluster, root, alice, project):
    walk, kept = Walk(cluster, root, alice, project, seed=3), Kept()
    made = set()
    for turn in range(STEPS):
        walk.step(walk.changes[turn % len(walk.changes)])
        now = at(walk.now)
        assert content(now, kept) == content(now, None), walk.changes[turn % len(walk.changes)]
        made.add(id(kept.devices._made))
    assert 1 < len(made) < STEPS, "it is made anew for some of the changes, and only for those"


def test_what_is_lent_is_of_one_load_at_a_time_and_changes_nothing(
    cluster, root, alice, project, other_project, carol
):
    walk, of_pages = Walk(cluster, root, alice, project, seed=5), set()
    for turn in range(STEPS):
        walk.step(walk.changes[turn % len(walk.changes)])
        now = at(walk.now)
        with lent_rows() as one, lent_rows() as other:
            assert one is not other
            # As the composer asks: with a job that is no row, and is nowhere in the next picture.
            draft = Job.objects.order_by("-pk").first() or submit(alice, project, now=now)
            draft.pk = 2**53
            load_snapshot(now, also=[draft], kept=one)
            assert content(now, one) == content(now, other) == content(now, None)
            of_pages |= {id(one), id(other)}
    assert len(of_pages) == 2, "the same two are lent again"


def test_what_a_failed_load_kept_is_not_lent_again():
    with pytest.raises(ZeroDivisionError), lent_rows() as kept:
        raise ZeroDivisionError
    with lent_rows() as one, lent_rows() as other:
        assert kept is not one
        assert kept is not other


def test_moments_are_read_as_each_database_writes_them():
    noon = NOON.timestamp()
    assert seconds_of("2026-11-20 12:00:00.250000") == noon + 0.25
    assert seconds_of("2026-11-20T13:00:00+01:00") == noon
    with pytest.raises(ValueError, match="a moment that is none: 'soon'"):
        seconds_of("soon")


_ids = st.integers(1, 9) | st.integers(2**40, 2**40 + 3)


@given(st.lists(st.tuples(_ids, _ids), max_size=40))
def test_ids_are_looked_up_once_each_in_the_order_they_come(pairs: list[tuple[int, int]]) -> None:
    rows: dict[tuple[int, ...], int] = {}

    def row_of(*key: int) -> int:
        assert key not in rows
        return rows.setdefault(key, len(rows))

    columns = [ints([pair[place] for pair in pairs]) for place in (0, 1)]
    simple: dict[tuple[int, int], int] = {}
    wanted = [simple.setdefault(pair, len(simple)) for pair in pairs]
    assert rows_of_ids(row_of, *columns).tolist() == wanted

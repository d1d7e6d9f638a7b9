"""What people do meanwhile: submit, change, pause, cancel, operate nodes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from accounts.errors import Conflict, Forbidden, Invalid
from scheduler.models import Job, Node
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.changing.limits import set_time_limit
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.nodes import drain_node, resume_node
from scheduler.spec import SpecInvalid, parse_spec
from tests.protocol.copies import Copies
from tests.protocol.wire import GPUS, NODES, NUMBERS, RUNS

NODES_ASKED = st.sampled_from([1, 1, 2, "1..2", "2..3"])
TIERS = st.sampled_from(["exploratory", "normal", "normal", "urgent", "production"])
WISHES = st.tuples(NODES_ASKED, st.integers(1, GPUS), TIERS)
ACTS = [
    cancel_job,
    hold_job,
    pause_job,
    release_job,
    release_job,
    partial(set_time_limit, time_limit_s=7200),
]


BEGINNINGS: dict[str, Any] = {
    "wishes": st.lists(WISHES, min_size=1, max_size=3),
    "plans": st.lists(RUNS, min_size=NODES, max_size=NODES),
    "is_under_way": st.booleans(),
}


class People(Copies):
    """One user of one project, and an operator."""

    @initialize(**BEGINNINGS)
    def begin(
        self, wishes: list[tuple[Any, int, str]], plans: list[tuple[float, int]], is_under_way: bool
    ) -> None:
        """Some jobs wait, or have been running for a while."""
        for node, plan in zip(self.nodes, plans, strict=True):
            self.talk(node)
            node.plans.append(plan)
        for number, (nodes, gpus, tier) in enumerate(wishes):
            self.submit(number, nodes, gpus, number % 2, 0, tier, 3600)
        if is_under_way:
            self.cycle(0)
            self.live_on(1)

    @rule(
        key=st.integers(0, 6),
        nodes=NODES_ASKED,
        gpus=st.integers(1, GPUS),
        retries=st.integers(0, 1),
        grace=st.sampled_from([0, 0, 60, 3600]),
        tier=TIERS,
        limit=st.sampled_from([90, 3600, 3600]),
        stop=st.sampled_from([0, 30, 30, 600]),
    )
    def submit(
        self,
        key: int,
        nodes: Any,
        gpus: int,
        retries: int,
        grace: int,
        tier: str,
        limit: int,
        stop: int = 30,
    ) -> None:
        """The same key may come again, with the same wish or another."""
        word = f"{key}-{nodes}-{gpus}-{retries}-{grace}-{tier}-{limit}-{stop}"
        spec = parse_spec({
            "name": f"train-{word}".replace("..", "-to-"),
            "project": self.project.path,
            "script": "true",
            "nodes": nodes,
            "gpus_per_node": gpus,
            "retries": retries,
            "time_limit": limit,
            "disconnect_grace": grace,
            "stop": {"grace": stop},
            "tier": tier,
            "checkpoint_dir": "/shared",
        })  # fmt: skip
        try:
            done = submit_job(actor=self.alice, spec=spec, idempotency_key=word, now=self.moment())
        except SpecInvalid as refused:
            assert [one.field for one in refused.problems] == ["nodes"], "too few are in service"
            return
        assert self.accepted.setdefault(word, done.job.pk) == done.job.pk
        self.note("submit", key=word, status=201, jobs=[done.job.pk])

    def note(self, kind: str, **facts: Any) -> None:
        """A fact of the history, as the torture would write it down."""
        self.facts.append({"kind": kind, "at": self.moment().timestamp(), **facts})

    @rule(data=st.data(), act=st.sampled_from(ACTS))
    def change_a_job(self, data: st.DataObject, act: Any) -> None:
        if self.accepted:
            self.change(data.draw(st.sampled_from(sorted(self.accepted.values()))), act)

    def change(self, job_id: int, act: Any) -> None:
        """In whatever state the job is; what is refused changes nothing."""
        job = Job.objects.select_related("project__team").get(pk=job_id)
        with suppress(Conflict, Forbidden, Invalid):
            act(actor=self.alice, job=job, now=self.moment())
            if act is cancel_job:
                self.note("cancel", job=job_id, status=200)

    @rule(number=NUMBERS, drains=st.booleans())
    def operate(self, number: int, drains: bool) -> None:
        row = Node.objects.get(pk=self.nodes[number].row.pk)
        if drains:
            drain_node(actor=self.root, node=row, now=self.moment())
        else:
            resume_node(actor=self.root, node=row, now=self.moment())

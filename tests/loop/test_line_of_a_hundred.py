"""A hundred random jobs: what people are shown is the scheduler's order, and nobody falls back."""

from __future__ import annotations

import random

import pytest

from scheduler.loop.answering import places_now
from scheduler.models import Job, JobEvent
from scheduler.selectors.queues import places_of, queue_rows
from scheduler.services.jobs import cancel_job
from scheduler.services.sharing.policies import set_policy
from tests.scenes import at, submit, sync
from tests.seconding import WHY

pytestmark = pytest.mark.django_db


def look(cluster, scheduler, moment: float) -> int:
    """One cycle, of nodes that were heard just now; how many it started."""
    for node in cluster.nodes:
        sync(node, now=at(moment))
    started: int = scheduler.run_cycle(at(moment)).started
    return started


def shown(viewer, pool) -> list[int]:
    """The line as the queue page has it."""
    return [row.job.pk for row in queue_rows(viewer, pool) if row.job is not None]


def check_line(viewer, pool, moment: float) -> dict[int, int]:
    """The position of each job, in the order of the page, which is that of the scheduler."""
    line = shown(viewer, pool)
    taken = places_now(pool, now=at(moment))
    assert line == sorted(taken, key=lambda pk: taken[pk].place)
    told = {job.pk: places_of(job)["position"] or 0 for job in Job.objects.filter(pk__in=line)}
    assert [told[pk] for pk in line] == list(range(1, len(line) + 1))
    return {pk: told[pk] for pk in line}


def check_causes(before: dict[int, int], after: dict[int, int], *, since: float) -> None:
    """Whoever was passed finds in what was recorded why: one before the passer left the line, so
    that its account has less ahead of it. Of one account nobody passes anybody."""
    jobs = Job.objects.in_bulk(before)
    gone = [
        jobs[event.job_id] for event in JobEvent.objects.filter(kind="cancelled", at__gte=at(since))
    ]
    assert {job.pk for job in gone} == set(before) - set(after)
    for pk in after:
        for other in after:
            if before[pk] < before[other] and after[pk] > after[other]:
                passed, passer = jobs[pk], jobs[other]
                assert passed.tier == passer.tier and passed.owner_id != passer.owner_id
                causes = [
                    job
                    for job in gone
                    if job.owner_id == passer.owner_id and before[job.pk] < before[other]
                ]
                assert causes, f"#{other} passed #{pk}, and nothing says why"


def test_a_hundred_jobs_are_shown_as_they_are_taken_and_only_move_up(
    cluster, scheduler, root, alice, carol, project, other_project
):
    draw = random.Random(11)
    people = [(alice, project), (carol, other_project)]
    for who, where in people:
        submit(who, where, nodes=1, gpus_per_node=2)
    assert look(cluster, scheduler, 1) == 2
    for second in range(100):
        tier = draw.choice(["exploratory", "normal", "normal", "urgent"])
        fields = {"gpus_per_node": draw.choice([1, 2]), "nodes": draw.choice([1, 1, 2])}
        submit(*draw.choice(people), now=at(2 + second), tier=tier, **fields)
    assert look(cluster, scheduler, 200) == 0

    fair = check_line(root, cluster.pool, 201)
    fell = 0
    for turn in range(3):
        taken_back = set(draw.sample(list(fair), 5))
        for pk in taken_back:
            cancel_job(actor=root, reason=WHY, job=Job.objects.get(pk=pk), now=at(202 + turn))
        assert look(cluster, scheduler, 202.4 + turn) == 0
        now_fair = check_line(root, cluster.pool, 202.6 + turn)
        check_causes(fair, now_fair, since=202 + turn)
        fell += sum(now_fair[pk] > fair[pk] for pk in now_fair)
        fair = now_fair
    assert fell, "nobody fell back, so that no cause was looked for"

    # Whose turn it is by fair share moves with what others cancel; by time of submit nobody passes.
    set_policy(actor=root, name="fifo")
    assert look(cluster, scheduler, 206) == 0
    before = check_line(root, cluster.pool, 207)
    assert sorted(before) == sorted(fair) and list(before) != list(fair)
    for turn in range(3):
        for pk in draw.sample(list(before), 5):
            cancel_job(actor=root, reason=WHY, job=Job.objects.get(pk=pk), now=at(210 + 100 * turn))
        assert look(cluster, scheduler, 220 + 100 * turn) == 0
        after = check_line(root, cluster.pool, 230 + 100 * turn)
        assert len(after) == len(before) - 5
        assert all(after[pk] <= before[pk] for pk in after)
        before = after

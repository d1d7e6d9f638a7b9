"""Eight processes that start and end jobs of one team at once; see `test_quota_race`.

Prepares the database, forks the racers, and prints what is left as JSON. `--each`: every job is
submitted by itself and has its turn to start (minutes); else 80 each in bulks of 40, with 60 turns.
A turn tries a start, or ends a job where the racer's own node is full. Before that all submit to a
project whose budget commits at the submit, a quarter of what it has room for each.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import time
from datetime import timedelta
from decimal import Decimal

import django

django.setup()
# Models can be imported only from here on.

from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import Sum
from django.utils import timezone

from accounts.models import Project, User
from accounts.services import create_project, create_team
from scheduler.models import (
    Allocation,
    Attempt,
    Budget,
    BudgetHold,
    Job,
    Node,
    Quota,
    SchedulerLease,
)
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.services.bulk import submit_jobs
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from scheduler.services.sharing.guard import held_now
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason
from tests import factories, scenes

IS_EACH = "--each" in sys.argv
RACERS, DEVICES_EACH = 8, 4
JOBS_EACH, BULK, STARTS_EACH = (250, 1, 250) if IS_EACH else (80, 40, 60)
MOST_GPUS, HOURS, LIMIT_S = 12, 10, 3600
# Submits of an hour each against a budget that commits at the submit, and what it has room for.
PLEDGES_EACH, PLEDGED_HOURS = (250, 500) if IS_EACH else (15, 30)
# At 3.60 an hour that is a little less than the ten hours.
MONEY = Decimal("35.00")


def setup() -> None:
    """A team with 12 GPUs, 10 GPU-hours and as much money, and 32 GPUs to fight for them.

    The organisation has the hours, the team the money: each start commits both.
    """
    root = factories.person("root", is_superuser=True)
    team = create_team(actor=root, name="Vision")
    create_project(actor=root, team=team, name="Digits")
    letters = create_project(actor=root, team=team, name="Letters")
    scenes.build_cluster(root, nodes=RACERS, gpus=DEVICES_EACH)
    SchedulerLease.objects.all().delete()
    far = timezone.now() + timedelta(days=1)
    # Each racer believes it is the scheduler: the lease protects nobody here.
    SchedulerLease.objects.bulk_create(
        SchedulerLease(name=f"racer-{number}", token=number, expires_at=far)
        for number in range(RACERS)
    )
    set_quota(actor=root, owner=team, maximum=MOST_GPUS)
    begin = timezone.now() - timedelta(days=1)
    set_budget(actor=root, owner=None, gpu_hours=HOURS, valid_from=begin, valid_until=far)
    set_budget(actor=root, owner=team, amount=MONEY, valid_from=begin, valid_until=far)
    set_budget(
        actor=root, owner=letters, gpu_hours=PLEDGED_HOURS, valid_from=begin, valid_until=far,
        rules=BudgetRules(commits_at="submit"),
    )  # fmt: skip


def race_to_pledge(number: int) -> tuple[int, int]:
    """Submit until the budget is used up and beyond, cancel some; returns how many were accepted
    and not cancelled, and how many were refused."""
    root, project = User.objects.get(username="root"), Project.objects.get(name="Letters")
    spec = parse_spec({
        "name": "pledge", "project": project.path, "script": "true", "time_limit": LIMIT_S,
        "gpus_per_node": 1,
    })  # fmt: skip
    draws, jobs, refused = random.Random(number), [], 0
    for _ in range(PLEDGES_EACH):
        try:
            jobs.append(submit_job(actor=root, spec=spec).job)
        except SpecInvalid:
            refused += 1
            continue
        if draws.random() < 0.3:
            cancel_job(actor=root, job=jobs.pop())
    return len(jobs), refused


def race(number: int) -> tuple[int, int, int]:
    """Submit, start on one's own node whatever is free there, end some, start again.

    Returns the most that was seen: of a count above its limit, of GPUs held, of the money taken.
    """
    root, project = User.objects.get(username="root"), Project.objects.get(name="Digits")
    document = {
        "name": "race", "project": project.path, "script": "true", "memory": "16MiB", "cpus": 1,
        "time_limit": LIMIT_S,
    }  # fmt: skip
    specs = [parse_spec(document)] * BULK
    jobs = [
        each.job.pk
        for _ in range(JOBS_EACH // len(specs))
        for each in submit_jobs(actor=root, specs=specs)
    ]
    node = Node.objects.order_by("pk")[number]
    draws = random.Random(number)
    most = (0, 0, 0)
    for job in jobs[:STARTS_EACH]:
        devices = _free(node)
        if not devices:
            _end_one(number, draws)
            continue
        placed = PlacedOn(node.pk, 0, devices[:1], 1, 16)
        start_attempts([Start(job, (placed,))], lease_token=number, now=timezone.now())
        most = _larger(most, _seen())
        if draws.random() < 0.3:
            _end_one(number, draws)
    return most


def _free(node: Node) -> tuple[int, ...]:
    return scenes._free(node, DEVICES_EACH)


def _end_one(number: int, draws: random.Random) -> None:
    node = Node.objects.order_by("pk")[number]
    live = list(
        Attempt.objects.filter(placements__node=node, ended_at__isnull=True).values_list(
            "pk", flat=True
        )
    )
    if live:
        with transaction.atomic():
            attempt = locked_live_attempt(draws.choice(live))
            if attempt is not None:
                placements = attempt.placements.select_related("node")
                reason = EndReason.EXIT_CODE
                abandon_placements(attempt, placements, reason, "raced", timezone.now())


def _seen() -> tuple[int, int, int]:
    """How far any count is above its limit at this moment, as everybody sees it, GPUs, money."""
    quota = Quota.objects.get()
    hours, money, _ = Budget.objects.order_by("account__depth")
    open_now = Allocation.objects.filter(released_at__isnull=True).count()
    over = max(0, quota.held - MOST_GPUS, open_now - MOST_GPUS)
    over = max(over, *(one.committed + one.spent - one.limit for one in (hours, money)))
    return over, quota.held, money.committed + money.spent


def _larger(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def judge() -> dict[str, int]:
    """What is left, counted one by one beside what the counters say."""
    quota = Quota.objects.get()
    hours, budget, pledged = Budget.objects.order_by("account__depth")
    holds = BudgetHold.objects.filter(budget=budget)
    money = {
        "committed": budget.committed,
        "unsettled": holds.filter(settled_at__isnull=True).aggregate(s=Sum("money"))["s"] or 0,
        "spent": budget.spent,
        "settled": holds.filter(settled_at__isnull=False).aggregate(s=Sum("spent_money"))["s"] or 0,
        "limit": budget.limit,
    }
    budget, holds = hours, BudgetHold.objects.filter(budget=hours)
    unsettled = holds.filter(settled_at__isnull=True).aggregate(s=Sum("gpu_seconds"))["s"] or 0
    spent = holds.filter(settled_at__isnull=False).aggregate(s=Sum("spent_s"))["s"] or 0
    return {
        "jobs": Job.objects.filter(name="race").count(),
        "pledged_s": pledged.committed_s,
        "pledges_s": pledged.pledges.aggregate(s=Sum("gpu_seconds"))["s"],
        "pledge_limit_s": pledged.limit,
        "pledge_waiting": Job.objects.filter(name="pledge", state="queued").count(),
        "attempts": Attempt.objects.count(),
        "held": quota.held,
        "held_one_by_one": held_now(quota),
        "committed_s": budget.committed_s,
        "unsettled_s": unsettled,
        "spent_s": budget.spent_s,
        "spent_one_by_one_s": spent,
        "limit_s": budget.limit,
        "live": Attempt.objects.filter(ended_at__isnull=True).count(),
        "open_holds": holds.filter(settled_at__isnull=True).count(),
        **{f"{name}_money": figure for name, figure in money.items()},
    }


def main() -> None:
    """The whole race."""
    call_command("migrate", verbosity=0)
    setup()
    # Each racer opens a connection of its own.
    connection.close()
    began = time.monotonic()
    with multiprocessing.get_context("fork").Pool(RACERS) as pool:
        pledged = pool.map(race_to_pledge, range(RACERS), chunksize=1)
        seen = pool.map(race, range(RACERS), chunksize=1)
    took_s = round(time.monotonic() - began, 1)
    names = ("worst_excess", "most_held", "most_taken_money")
    most = dict(zip(names, (max(column) for column in zip(*seen, strict=True)), strict=True))
    print(
        json.dumps(
            {
                **judge(),
                **most,
                "accepted": sum(one for one, _ in pledged),
                "refused": sum(one for _, one in pledged),
                "took_s": took_s,
            }
        )
    )


if __name__ == "__main__":
    main()

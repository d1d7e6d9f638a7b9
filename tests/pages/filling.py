"""A row of what the pages' usual world has none of, so that it can be copied by hundreds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from allauth.account.models import EmailAddress
from django.utils import timezone

from accounts.models import Project, Rate, User
from accounts.services import rename_team, set_cost_centre
from scheduler.models import (
    Attempt,
    Budget,
    BudgetAlert,
    BudgetPledge,
    BudgetTrueUp,
    CycleRecord,
    DeviceHour,
    GrantNotice,
    HostSample,
    IdleRule,
    IdleWarning,
    InvariantCheck,
    Job,
    JobSchedule,
    JobSet,
    Node,
    Notification,
    OutputFile,
    Pool,
    QuotaRequest,
    Reconciliation,
    ReportDelivery,
    ReportSchedule,
    Session,
    SessionPass,
    TemplateUse,
    TemplateVersion,
    Threshold,
    WaitingNews,
)
from scheduler.services.bookings.headroom import set_headroom
from scheduler.services.books.disputing import dispute_statement
from scheduler.services.books.months.restating import preview_price
from scheduler.services.inbox import choose_kind, mute, set_hours
from scheduler.services.inbox.watching import watch_job
from scheduler.services.jobs import submit_job
from scheduler.services.kept.pruning import set_retention
from scheduler.services.kept.reports import ask_report_file
from scheduler.services.recurring.running import run_now
from scheduler.services.requesting.foreseeing.whatif import ask_whatif
from scheduler.services.requesting.policies import set_request_policy
from scheduler.services.sharing.past_use import count_past_use
from scheduler.services.sharing.policies import set_policy, set_pool_policy
from scheduler.services.sites.datasets import set_copy, set_dataset
from scheduler.services.sites.licences import set_licence
from scheduler.services.sites.windows import plan_window
from scheduler.services.timeline.days import count_days
from scheduler.services.timeline.hours import count_hours
from scheduler.services.timeline.wasted_days import keep_readings, sum_days
from scheduler.spec import parse_spec
from tests.scenes import submit

# Nobody's row of a page: rights to single things, which only groups have; what is deleted within
# the hour, or shown one at a time.
LEFT_EMPTY = {
    "accounts_projectuserobjectpermission",
    "accounts_teamuserobjectpermission",
    "accounts_user_user_permissions",
    "accounts_demoorder",
    "scheduler_counting",
    # What the engine keeps for minutes, of the cards of one node.
    "scheduler_claim",
    # Read by a job's start, and shown on no page.
    "scheduler_meantsecrets",
    # Asked for by their key, when a form is sent, and shown on no page.
    "accounts_spentkey",
    # Of today and yesterday alone, as many as their hours; `bench pages` sums a day's readings.
    "scheduler_hourofidle",
    "scheduler_hourofreadings",
    "scheduler_hourssummed",
    "scheduler_spanbegun",
    "scheduler_spanofreadings",
    "scheduler_summedhour",
}


def fill(people: dict[str, User], things: dict[str, Any], project: Project) -> None:
    """Through services where one writes a single row; else what a task of every day leaves."""
    of_sites(people["root"], Pool.objects.get())
    of_people(people, things, project)
    of_jobs(people["root"], people["alice"], project)
    of_schedules(people["alice"])
    of_days(people["root"])
    of_finance(people, things)


def of_sites(root: User, pool: Pool) -> None:
    """Licences, data, maintenance and rules."""
    now = timezone.now()
    node = Node.objects.get(name="n2")
    set_licence(actor=root, name="solver", total=3)
    set_copy(actor=root, dataset=set_dataset(actor=root, name="frames", size="9GiB"), node=node)
    begin = now + timedelta(days=2)
    plan_window(
        actor=root, pool=pool, nodes=["n2"], from_at=begin, until_at=begin + timedelta(hours=2)
    )
    set_policy(actor=root, name="fair", preempts=True)
    set_headroom(actor=root, pool=pool, gpus=1)
    set_pool_policy(actor=root, pool=pool, name="fifo")
    set_request_policy(actor=root, kind="borrow", sla_hours=5, most_days=9)


def of_people(people: dict[str, User], things: dict[str, Any], project: Project) -> None:
    """What each chose for themselves, and what teams were called."""
    root, alice = people["root"], people["alice"]
    set_cost_centre(actor=root, team=project.team, code="SEEING", name="Seeing")
    rename_team(actor=root, team=project.team, name="Vision and more")
    set_retention(actor=root, project=project, log_days=9, file_days=None)
    told = Notification.objects.filter(person=alice).exclude(subject="").first()
    assert told is not None
    mute(actor=alice, subject=told.subject)
    choose_kind(actor=alice, kind=told.kind, in_inbox=True, by_mail=False)
    set_hours(actor=alice, mail="daily", now=timezone.now())
    WaitingNews.objects.create(person=alice, notification=told, key=told.key, due_at=timezone.now())
    EmailAddress.objects.create(user=alice, email="alice@example.org", verified=True, primary=True)
    asked = QuotaRequest.objects.get(pk=things["asked"])
    ask_whatif(actor=people["lead"], request=asked)
    GrantNotice.objects.create(request=asked, person=alice, days=7, at=timezone.now())


def of_schedules(alice: User) -> None:
    """A schedule that has brought a job."""
    run_now(actor=alice, schedule=JobSchedule.objects.get())


def of_jobs(root: User, alice: User, project: Project) -> None:
    """A job after another one and an array, of a template, sent with a key; what was measured of an
    attempt; somebody watches it."""
    now = timezone.now()
    first = Job.objects.filter(name="queued").get()
    whole = {"set": JobSet.objects.earliest("pk").pk, "kind": "afterany"}
    after = submit(alice, project, depends_on=[first.pk, whole], now=now)
    spec = parse_spec({"project": project.path, "script": "true", "name": "sent"})
    submit_job(actor=alice, spec=spec, idempotency_key="again", now=now)
    version = TemplateVersion.objects.first()
    assert version is not None
    TemplateUse.objects.create(job=after, version=version, used_at=now)
    session = Session.objects.get()
    SessionPass.objects.create(session=session, user=alice, ticket_hash="t", issued_at=now)
    budget = Budget.objects.earliest("pk")
    BudgetPledge.objects.create(job=after, budget=budget, gpu_seconds=9)
    running = Attempt.objects.get(job__name="running")
    Attempt.objects.filter(pk=running.pk).update(
        checkpoint_path="/data/ck", checkpoint_at=now, checkpoint_step=9
    )
    Attempt.objects.filter(ended_at__isnull=False).update(warnings=3, warnings_at=now)
    device = running.placements.get().allocations.get().device
    hour = now.replace(minute=0, second=0, microsecond=0)
    figures = {"gpu_percent": 9, "memory_used_mib": 9, "power_watts": 9, "temperature_c": 9}
    for one in (running, None):
        DeviceHour.objects.create(device=device, attempt=one, hour=hour, count=9, **figures)
    keep_readings([running.pk])
    HostSample.objects.create(
        node=device.node, at=now, cpu_percent=9, memory_used_mib=9, scratch_free_mib=9
    )
    assert OutputFile.objects.exists()
    of_idle(project, running)
    watch_job(actor=root, pk=running.job_id, now=now)


def of_idle(project: Project, running: Attempt) -> None:
    """A rule for GPUs that do little, and a job that was warned by it."""
    now = timezone.now()
    rule = IdleRule.objects.create(project=project, is_on=True, act="tell", set_at=now)
    IdleWarning.objects.create(
        attempt=running, rule=rule, rule_version=1, warned_at=now, idle_since=now, looked_at=now,
        below_percent=5, gpus=1, readings=9, highest_percent=1, act="tell",
    )  # fmt: skip


def of_days(root: User) -> None:
    """What tasks count and note by themselves."""
    now = timezone.now()
    count_days(now=now + timedelta(hours=1))
    sum_days(now=now + timedelta(days=4))
    count_hours(now=now + timedelta(hours=1))
    count_past_use(now=now + timedelta(hours=1), half_life_s=86_400)
    CycleRecord.objects.create(at=now, duration_ms=9, waiting=2, started=1, stopped=0)
    Reconciliation.objects.create(at=now, holds=True, checks=[])
    InvariantCheck.objects.create(at=now, took_s=1, is_whole=True, broken=0)


def of_finance(people: dict[str, User], things: dict[str, Any]) -> None:
    """Files that are made, mails of a report, what a price would move, an alert."""
    now, root = timezone.now(), people["root"]
    for person in (root, people["lead"]):
        ask_report_file(actor=person, slug="period-summary", period="2026-11", file_format="csv")
    ReportDelivery.objects.create(
        schedule=ReportSchedule.objects.get(),
        due_on=now.date(),
        period="2026-10",
        recipient=root,
        claimed_at=now,
        outcome="sent",
    )
    dispute_statement(actor=root, number=things["statement"], text="Whose job is this?", now=now)
    preview_price(actor=root, rate=Rate.objects.get(pk=things["rate"]))
    budget = Budget.objects.earliest("pk")
    BudgetTrueUp.objects.create(budget=budget, at=now, until_s=9, ledger=9, difference=0)
    BudgetAlert.objects.create(
        budget=budget, version=budget.version, threshold=Threshold.values[0], used=9, at=now
    )

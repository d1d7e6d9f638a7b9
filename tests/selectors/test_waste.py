"""What was held and did nothing, by spans of little use; and what was reserved and not used."""

from __future__ import annotations

from decimal import Decimal

import pytest

from accounts.models import Rate
from portal.pages.using.waste import Part, _print
from scheduler.models import DeviceHour, DeviceSample
from scheduler.models.telemetry import UNKNOWN_USE
from scheduler.selectors.books.catalogue import report_named
from scheduler.selectors.books.slugs.wasted.use import _months_words, _unread_remarks
from scheduler.selectors.machines.measured import measured_means
from scheduler.selectors.telemetry import job_series
from scheduler.services.telemetry import ingest_samples, prune_telemetry
from scheduler.services.usage import accrue_usage
from scheduler.wire import messages, readings
from scheduler.wire.codec import decode, encode
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.selectors.test_reports import opened
from tests.services.test_books import close

pytestmark = pytest.mark.django_db
MINUTE = 60


def read_every_minute(attempt, percents):
    """One reading a minute from noon on, of the attempt's first device."""
    device = attempt.placements.get().allocations.get().device
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device, attempt=attempt, at=at(MINUTE * minute), gpu_percent=percent,
            memory_used_mib=1, power_watts=1, temperature_c=1,
        )
        for minute, percent in enumerate(percents)
    )  # fmt: skip


def test_a_span_counts_by_its_mean_and_the_longest_stretch_is_told(root, alice, project):
    """Two hours: 10 minutes idle, 40 at work with pauses of a minute, 70 minutes idle."""
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = start(submit(alice, project, name="sleepy"), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    # One busy second within five minutes is no work; one idle minute within five is no rest.
    at_work = [0, 90, 90, 90, 90] * 8
    percents = [*[4, 4, 9, 0, 0] * 2, *at_work, *[0] * 70]
    read_every_minute(attempt, percents)
    sync(node, ended(attempt), now=at(7200))
    close(root)

    def figures():
        (row,), sheet = opened(root, "idle-waste", now_s=int(at(7200).timestamp()))
        assert all(check.holds for check in sheet.checks), sheet.checks
        assert sheet.remarks == ("Idle: below 5 % of use on average over 5 minutes.",)
        return row

    row = figures()
    assert (row["what"], row["readings"], row["allocated_gpu_seconds"]) == ("sleepy", 120, 7200)
    assert (row["idle_gpu_seconds"], row["longest_idle_s"]) == (4800, 4200)
    assert row["waste"] == Decimal("4.8")
    # Rolled up to hours it stays as it was, also where a stretch crosses the hour.
    assert prune_telemetry(now=at(3 * 86_400)) == 120
    assert figures() == row


def test_what_does_not_tell_its_use_is_neither_idle_nor_busy(root, alice, project):
    """Twenty minutes idle, then unknown for the rest of two hours; another that never tells."""
    node = scenes.build_cluster(root, nodes=1, gpus=2).node(1)
    told, blind = (start(submit(alice, project, name=name), node, now=at(0)) for name in "ab")
    sync(node, running(told), running(blind), now=at(0))
    read_every_minute(told, [0] * 20 + [UNKNOWN_USE] * 100)
    read_every_minute(blind, [UNKNOWN_USE] * 120)
    sync(node, ended(told), ended(blind), now=at(7200))
    close(root)

    def figures():
        rows, _ = opened(root, "idle-waste", now_s=int(at(7200).timestamp()))
        return [(row["what"], row["readings"], row["longest_idle_s"]) for row in rows]

    before = figures()
    assert before == [("a", 20, 1200)]
    assert measured_means(alice, [blind.job])[blind.job_id].use is None
    assert prune_telemetry(now=at(3 * 86_400)) == 240
    assert figures() == before
    hours = DeviceHour.objects.order_by("hour").values_list("count", "gpu_percent")
    assert list(hours.filter(attempt=told)) == [(20, 0), (0, UNKNOWN_USE)]
    (series,) = job_series(alice, blind.job)
    assert series.gpu_percent == [None, None] and series.temperature_c == [1, 1]


def test_a_reading_that_does_not_tell_the_use_is_kept(root):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    uuid, now = node.devices.get().uuid, at(0).timestamp()
    request = messages.SyncRequest(
        protocol=3, agent_version="", agent_id="", boot_id="", seen_revision=0, hold_s=0,
        sent_at=now, samples=(readings.DeviceSample(uuid, now - 1, 30.0, 5, 60.0, 40.0),),
        unrated=(readings.DeviceSample(uuid, now, None, 7, 60.0, 41.0),),
    )  # fmt: skip
    assert decode(messages.SyncRequest, encode(request)) == request
    assert ingest_samples(node=node, request=request, now=at(0)) == 2
    found = DeviceSample.objects.order_by("at").values_list("gpu_percent", "memory_used_mib")
    assert list(found) == [(30.0, 5), (UNKNOWN_USE, 7)]


def test_spans_and_threshold_are_settings(root, alice, project, settings):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = start(submit(alice, project), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    read_every_minute(attempt, [0] * 5 + [30] * 5)
    sync(node, ended(attempt), now=at(600))
    settings.TRAINYARD = settings.TRAINYARD | {"idle_below_percent": 20, "idle_span_s": 600}
    (row,), sheet = opened(root, "idle-waste", now_s=int(at(900).timestamp()))
    assert (row["idle_gpu_seconds"], row["longest_idle_s"]) == (600, 600)
    assert sheet.remarks == ("Idle: below 20 % of use on average over 10 minutes.",)


def a_friday_and_a_monday(alice, project, node, now=7200):
    """Two hours of Friday, ten minutes and then seventy of them idle; an hour of Monday, idle for
    half of it."""
    friday = start(submit(alice, project, name="sleepy"), node, now=at(0))
    sync(node, running(friday), now=at(0))
    read_every_minute(friday, [*[0] * 10, *[90] * 40, *[0] * 70])
    sync(node, ended(friday), now=at(now))
    monday = start(submit(alice, project, name="slow"), node, now=at(3 * 86_400))
    sync(node, running(monday), now=at(3 * 86_400))
    device = monday.placements.get().allocations.get().device
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device, attempt=monday, at=at(3 * 86_400 + MINUTE * minute),
            gpu_percent=0 if minute < 30 else 80, memory_used_mib=1, power_watts=1, temperature_c=1,
        )
        for minute in range(60)
    )  # fmt: skip
    sync(node, ended(monday), now=at(3 * 86_400 + 3_600))


def by_week(viewer, **narrowed):
    rows, sheet = opened(viewer, "use-and-waste", **narrowed)
    assert all(check.holds for check in sheet.checks), sheet.checks
    return [
        (row["week"], row["work_gpu_seconds"], row["idle_gpu_seconds"], row["amount"],
         row["idle_amount"], row["stands"])
        for row in rows
    ], sheet  # fmt: skip


def test_weeks_tie_to_the_ledger_and_to_the_waste_of_attempts(root, alice, lead, carol, project):
    """At 3.60 an hour: what attempts wasted is what their weeks did, to the last digit."""
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    a_friday_and_a_monday(alice, project, node)
    so_far, _ = by_week(root, now_s=int(at(4 * 86_400).timestamp()))
    close(root)
    final, sheet = by_week(root)
    assert final == [
        ("2026-W47", 2400, 4800, Decimal("7.2"), Decimal("4.8"), "final"),
        ("2026-W48", 1800, 1800, Decimal("3.6"), Decimal("1.8"), "final"),
    ]
    # Prices of one kind only: what was charged so far is what the close says.
    assert [row[:5] for row in so_far] == [row[:5] for row in final]
    assert {row[5] for row in so_far} == {"so far"}
    words = [check.words for check in sheet.checks]
    assert "days of closed months equal lines" in words
    assert "equals ledger" in words
    attempts, _ = opened(root, "idle-waste")
    assert sum(row["waste"] for row in attempts) == sheet.totals["idle_amount"]
    assert sum(row["idle_gpu_seconds"] for row in attempts) == sheet.totals["idle_gpu_seconds"]
    # The owner sees their own, the lead the team's; who is in another team nothing of it.
    assert by_week(alice)[0] == by_week(lead)[0] == final
    assert by_week(carol)[0] == []
    monday, _ = by_week(root, since="2026-11-22", until="2026-11-25")
    assert monday == final[1:]


def test_what_is_not_measured_is_neither_at_work_nor_idle(root, alice, project):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = start(submit(alice, project), node, now=at(0))
    sync(node, running(attempt), now=at(60))
    sync(node, ended(attempt), now=at(3660))
    (row,), _ = opened(alice, "use-and-waste", now_s=int(at(7200).timestamp()))
    figures = ("held", "work", "idle", "unread", "around")
    assert [row[f"{name}_gpu_seconds"] for name in figures] == [3660, 0, 0, 3600, 60]
    assert row["idle_amount"] == 0
    assert row["used_amount"] == row["amount"] == Decimal("3.66")


def test_idle_time_of_what_was_charged_nothing_yet_has_no_price_and_no_false_zero(
    root, alice, project
):
    """Half an hour idle, and the first hour is charged when it is over."""
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = start(submit(alice, project), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    read_every_minute(attempt, [0] * 60)
    (row,), sheet = opened(alice, "use-and-waste", now_s=int(at(1800).timestamp()))
    assert (row["idle_gpu_seconds"], row["amount"], row["idle_amount"]) == (1800, 0, None)
    assert sheet.remarks[-1].startswith("November 2026 is not closed. ")
    assert "Until then it has no amount." in sheet.remarks[-1]
    assert all(check.holds for check in sheet.checks), sheet.checks
    part = Part("", "", at(0).date(), at(0).date(), dict(sheet.totals), unpriced={"idle_amount"})
    _print(report_named("use-and-waste"), [part], "EUR")
    assert part.texts["idle_amount"] == "not priced yet" and part.texts["amount"] == "0.00 EUR"
    assert part.texts["idle_gpu_seconds"] == part.texts["held_gpu_seconds"] == "0.50"
    # Once an hour is charged, its idle part is.
    accrue_usage(now=at(3601))
    (row,), sheet = opened(alice, "use-and-waste", now_s=int(at(3601).timestamp()))
    assert row["idle_amount"] > Decimal("3.59")
    assert not any("has no amount" in remark for remark in sheet.remarks)
    assert part.figure("idle_amount") is None
    part.sums["idle_amount"] = row["idle_amount"]
    assert part.figure("idle_amount") == row["idle_amount"]


def test_idle_time_at_a_price_of_nothing_costs_nothing(root, alice, project):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    Rate.objects.update(price_per_gpu_hour=0)
    attempt = start(submit(alice, project), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    read_every_minute(attempt, [0] * 60)
    sync(node, ended(attempt), now=at(3600))
    (row,), _ = opened(alice, "use-and-waste", now_s=int(at(3601).timestamp()))
    assert (row["idle_gpu_seconds"], row["idle_amount"]) == (3600, 0)


@pytest.mark.parametrize(("unread", "told"), [(4, ()), (90, ("90 %",))])
def test_what_nobody_measured_is_told_where_it_is_no_trifle(unread, told):
    found = _unread_remarks({"held_gpu_seconds": 100, "unread_gpu_seconds": unread})
    assert len(found) == len(told) and all(word in found[0] for word in told)
    assert _unread_remarks({"held_gpu_seconds": 0, "unread_gpu_seconds": 0}) == ()


@pytest.mark.parametrize(
    ("months", "said"),
    [
        (["2026-11"], "November 2026"),
        (["2026-10", "2026-11"], "October and November 2026"),
        (["2026-12", "2027-01"], "December 2026 and January 2027"),
        (["2026-09", "2026-10", "2026-11"], "September 2026 to November 2026"),
    ],
)
def test_months_that_are_not_closed_are_said_in_words(months, said):
    assert _months_words(months) == said

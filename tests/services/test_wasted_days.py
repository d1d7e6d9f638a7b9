"""Use and waste by day says the same from sums as counted, whatever came late and whatever went."""

from __future__ import annotations

import random

import pytest
from django.db import transaction

from scheduler.conf import load_conf
from scheduler.models import (
    Attempt,
    DayOfReadings,
    DayOfWaste,
    DeviceHour,
    DeviceSample,
    SummedDay,
)
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.months import books_of
from scheduler.selectors.books.slugs.wasted.asked import idle_as
from scheduler.selectors.books.slugs.wasted.days import MOST_WINDOWS, days_of
from scheduler.selectors.books.spans import span_of
from scheduler.services.kept.pruning import prune_kept, set_retention
from scheduler.services.telemetry import ingest_samples, prune_telemetry
from scheduler.services.timeline import wasted_days
from scheduler.services.timeline.wasted_days import sum_again, sum_days
from scheduler.services.usage import accrue_usage, refund_attempt
from scheduler.states import EndReason
from scheduler.wire import messages
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.selectors.test_reports import opened
from tests.services.test_books import close

pytestmark = pytest.mark.django_db
DAY_S = 86_400
# So many days before the first one nothing is known of, in one go.
YEAR = 366
# The third of December, when the last readings of November are rolled up.
NOW = at(13 * DAY_S)
SPAN = {"since": "2026-11-20", "until": "2026-12-04", "now_s": int(NOW.timestamp())}


class Past:
    """Jobs of three people in two teams over twelve days and the end of a month, some of them over
    several days, some without readings."""

    def __init__(self, seed, root, people) -> None:
        self.draws = random.Random(seed)
        self.node = scenes.build_cluster(root, nodes=1, gpus=len(people)).node(1)
        self.attempts: list[Attempt] = []
        acts = sorted(
            (moment, place, act) for place in range(len(people)) for moment, act in self._acts()
        )
        held = {}
        for moment, place, act in acts:
            if act == "start":
                held[place] = start(
                    submit(*people[place], now=at(moment)), self.node, now=at(moment)
                )
                self.attempts.append(held[place])
            elif act == "run":
                sync(self.node, running(held[place]), now=at(moment))
            elif act == "accrue":
                accrue_usage(now=at(moment))
            else:
                self._read(held[place], moment)
                sync(self.node, ended(held[place]), now=at(moment))

    def _acts(self):
        moment, draw = 0, self.draws.randrange
        while (moment := moment + draw(600, 40 * 3600)) < 11 * DAY_S:
            yield moment, "start"
            moment += draw(1, 600)
            yield moment, "run"
            yield moment + draw(1, 300), "accrue"
            moment += draw(600, 40 * 3600)
            yield moment, "end"

    def _read(self, attempt, until) -> None:
        if self.draws.random() < 0.2:
            return
        device = attempt.placements.get().allocations.get().device
        begin = int((attempt.assigned_at - at(0)).total_seconds()) + 600
        DeviceSample.objects.bulk_create(
            DeviceSample(
                device=device, attempt=attempt, at=at(second), memory_used_mib=1, power_watts=1,
                gpu_percent=self.draws.choice((0, 0, 3, 80)), temperature_c=1,
            )
            for second in range(begin, until, 1200)
        )  # fmt: skip


@pytest.fixture
def viewers(root, lead, alice, carol):
    return root, lead, alice, carol


def seen(viewers):
    """What each of them sees, of all, of a month, of days that begin and end within a day."""
    root, lead, *_ = viewers
    asks = [(viewer, SPAN) for viewer in viewers]
    asks += [(root, SPAN | {"team": name}) for name in ("vision", "platform")]
    asks += [(root, {}), (lead, SPAN | {"since": "2026-11-24", "until": "2026-11-29"})]
    asks += [(root, SPAN | {"now_s": int(at(6 * DAY_S + 999).timestamp())})]
    found = []
    for viewer, narrowed in asks:
        rows, sheet = opened(viewer, "use-and-waste", **narrowed)
        assert all(check.holds for check in sheet.checks), sheet.checks
        found.append((rows, dict(sheet.totals)))
    return found


def counted(viewers):
    """The same without any sum."""
    with transaction.atomic():
        sum_again()
        found = seen(viewers)
        transaction.set_rollback(True)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_sums_equal_the_count_however_late(
    seed, root, viewers, alice, bob, carol, project, other_project, monkeypatch
):
    past = Past(seed, root, [(alice, project), (bob, project), (carol, other_project)])
    prune_telemetry(now=NOW)
    plain = seen(viewers)
    assert sum_days(now=NOW) == YEAR + 13, "from the first day to yesterday"
    assert DayOfWaste.objects.exists() and seen(viewers) == counted(viewers) == plain
    assert sum_days(now=NOW) == 0

    broken = past.draws.sample(past.attempts, 3)
    for attempt in broken:
        Attempt.objects.filter(pk=attempt.pk).update(end_reason=EndReason.NODE_LOST)
        refund_attempt(attempt)
    late = seen(viewers)
    assert late == counted(viewers) != plain, "before anybody has summed again"
    assert sum_days(now=NOW) > 0
    assert seen(viewers) == late

    close(root, now=NOW)
    final = seen(viewers)
    assert final == counted(viewers) != late
    assert sum_days(now=NOW) == YEAR + 11
    assert seen(viewers) == final
    assert "platform" in {row["team"] for row in final[0][0]}

    assert prune_kept(now=at(500 * DAY_S)).samples and not DeviceHour.objects.exists()
    # But for a day that is cut: of its readings only what the whole day says is left.
    final = final[:-1]
    assert seen(viewers)[:-1] == counted(viewers)[:-1] == final, "sums and what they need stay"
    sum_again()
    monkeypatch.setattr(wasted_days, "_BATCH", 2)
    assert sum_days(now=NOW) == YEAR + 13 and seen(viewers)[:-1] == final


def a_job_of_two_days(alice, project, node):
    """Idle for half of its readings."""
    attempt = start(submit(alice, project, now=at(0)), node, now=at(0))
    sync(node, running(attempt), now=at(0))
    device = attempt.placements.get().allocations.get().device
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device=device, attempt=attempt, at=at(hour * 3600), gpu_percent=hour % 2 * 90,
            memory_used_mib=1, power_watts=1, temperature_c=1,
        )
        for hour in range(24)
    )  # fmt: skip
    sync(node, ended(attempt), now=at(DAY_S))
    return attempt


def test_what_a_project_prunes_early_is_still_told_by_day(root, alice, lead, project):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    a_job_of_two_days(alice, project, node)
    span = SPAN | {"until": "2026-11-22", "now_s": int(at(2 * DAY_S).timestamp())}
    before, _ = opened(alice, "use-and-waste", **span)
    assert [row["idle_gpu_seconds"] for row in before] == [21_600, 21_600]
    set_retention(actor=lead, project=project, log_days=None, file_days=None, sample_days=1)
    # Before any day was summed.
    assert prune_kept(now=at(2 * DAY_S + 60)).samples == 24
    assert not DeviceSample.objects.exists() and not SummedDay.objects.exists()
    assert opened(alice, "use-and-waste", **span)[0] == before
    assert list(DayOfReadings.objects.order_by("day_s").values_list("readings", "idle")) == [
        (12, 6),
        (12, 6),
    ]


def test_a_day_is_summed_when_it_is_over_and_again_when_its_readings_are_hours(
    root, alice, project
):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = a_job_of_two_days(alice, project, node)
    assert sum_days(now=at(12 * 3600 + 7200 - 1)) == YEAR, "two hours after midnight"
    assert sum_days(now=at(12 * 3600 + 7200), within_s=0) == 0, "no time"
    assert sum_days(now=at(12 * 3600 + 7200)) == 1
    assert sum_days(now=at(2 * DAY_S)) == 1
    assert sum_days(now=at(3 * DAY_S)) == 1, "its raw readings are there"
    assert set(SummedDay.objects.order_by("-day_s")[:3].values_list("idle_as", flat=True)) == {
        idle_as(load_conf())
    }
    before = seen((root, root, alice))
    prune_telemetry(now=at(3 * DAY_S))
    assert DeviceHour.objects.filter(attempt=attempt).exists()
    assert seen((root, root, alice)) == before == counted((root, root, alice))
    assert sum_days(now=at(3 * DAY_S)) == 2, "of the third some may come"
    assert sum_days(now=at(5 * DAY_S)) == 3


def idle_of(viewer):
    return opened(viewer, "use-and-waste", **SPAN)[1].totals["idle_gpu_seconds"]


def test_a_day_is_counted_that_another_rule_read(root, alice, project, settings):
    """As long as its readings say something else by the new one."""
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    a_job_of_two_days(alice, project, node)
    sum_days(now=at(3 * DAY_S))
    assert idle_of(alice) == 43_200
    settings.TRAINYARD = settings.TRAINYARD | {"idle_below_percent": 95}
    assert idle_of(alice) == 86_400
    assert sum_days(now=at(3 * DAY_S)) == 3 and idle_of(alice) == 86_400


def test_a_reading_that_comes_late_undoes_the_sum_of_its_day(root, alice, project):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = a_job_of_two_days(alice, project, node)
    uuid = attempt.placements.get().allocations.get().device.uuid
    now = at(DAY_S + 12 * 3600 - 60)

    def reading(second):
        one = messages.DeviceSample(uuid, at(second).timestamp(), 0.0, 1, 1.0, 1.0, attempt.pk)
        request = messages.SyncRequest(
            protocol=3, agent_version="", agent_id="", boot_id="", seen_revision=0, hold_s=0,
            sent_at=now.timestamp(), samples=(one,),
        )  # fmt: skip
        return ingest_samples(node=node, request=request, now=now)

    assert sum_days(now=now) == YEAR + 1
    assert reading(DAY_S - 1) == 1 and sum_days(now=now) == 0, "of a day that is not over"
    before = seen((root, root, alice))
    known = wasted_days._undo_changed(now)
    assert reading(12 * 3600 - 60) == 1 and SummedDay.objects.count() == YEAR
    late = seen((root, root, alice))
    assert late == counted((root, root, alice)) != before
    window = tuple(int(at(hours * 3600).timestamp()) for hours in (-12, 12))
    assert wasted_days._sum(window, known, wasted_days._accounts()) == 0, "it has not seen it"
    assert sum_days(now=now) == 1 and seen((root, root, alice)) == late


def test_whoever_sums_writes_nothing_over_what_somebody_knows_better(root, alice, project):
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    attempt = a_job_of_two_days(alice, project, node)
    prune_telemetry(now=at(5 * DAY_S))
    sum_days(now=at(5 * DAY_S))
    known = wasted_days._undo_changed(at(5 * DAY_S))
    count = SummedDay.objects.count()
    refund_attempt(attempt)
    newer = wasted_days._undo_changed(at(5 * DAY_S))
    assert SummedDay.objects.count() == count - 2
    (window,) = wasted_days._due(at(5 * DAY_S), newer)
    assert wasted_days._sum(window, known, wasted_days._accounts()) == 0
    assert wasted_days._sum(window, newer, wasted_days._accounts()) == 2
    sum_again(*window)
    assert wasted_days._sum(window, newer, wasted_days._accounts()) == 0
    assert sum_days(now=at(5 * DAY_S)) == 2


def test_days_apart_are_read_in_few_windows(root, alice, project):
    """However many days are due, statements look into six windows at most."""
    node = scenes.build_cluster(root, nodes=1, gpus=1).node(1)
    a_job_of_two_days(alice, project, node)
    prune_telemetry(now=at(40 * DAY_S))
    sum_days(now=at(40 * DAY_S))
    for one in list(SummedDay.objects.order_by("day_s")[YEAR::2]):
        sum_again(one.day_s, one.day_s + DAY_S)
    span = span_of(books_of("2026-11"), Ask("2026-11", since="2026-11-20", until="2026-12-20"))
    days = days_of(span, (), idle_as(load_conf()))
    assert len(days.windows) == MOST_WINDOWS
    covered = {*days.summed, *(day for s, e in days.windows for day in range(s, e, DAY_S))}
    assert sorted(covered) == list(range(span.start_s, span.end_s, DAY_S))
    ask = {"since": "2026-11-20", "until": "2026-12-20"}
    assert opened(alice, "use-and-waste", **ask)[1].totals["held_gpu_seconds"] == DAY_S

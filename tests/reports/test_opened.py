"""An opened report: its pages, and what it is narrowed to by team and project."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.services import approve_rate, propose_rate
from portal.reports.books.cells import amount_places, shown, two_places
from portal.reports.books.opened import (
    ShownCell,
    adds_up,
    check_words,
    decimals_of,
    page_of,
    shown_rows,
)
from scheduler.models import Attempt, Placement, UsageLine
from scheduler.selectors.books.catalogue import REPORTS, open_report
from scheduler.selectors.books.frame import Ask, Bound, Check, Column, Form, Row, Sheet
from scheduler.services import books
from scheduler.services.sharing.budgets import set_budget
from scheduler.states import EndReason
from tests import scenes
from tests.services.test_books import LATER, clerk, close, yard
from tests.services.test_late_losses import restate
from tests.services.unlocking import spoil

__all__ = ["clerk", "yard"]
NOVEMBER = Ask("2026-11")
MONTH = {
    "valid_from": datetime(2026, 11, 1, tzinfo=UTC),
    "valid_until": datetime(2026, 12, 1, tzinfo=UTC),
}


def price_shares(root, clerk, kind="platform-share"):
    rate = propose_rate(
        actor=clerk,
        device_model=scenes.MODEL,
        kind=kind,
        price_per_gpu_hour=Decimal("0.36"),
        valid_from=scenes.NOON - timedelta(days=1),
        restate=True,
        reason="shares begin",
    )
    approve_rate(actor=root, rate=rate)


def rows_of(viewer, slug, ask):
    _, sheet = open_report(viewer, slug, ask)
    return [row.cells for row in sheet.rows(0)]


def test_a_page_ends_where_the_key_changes_however_many_rows_share_one():
    keys = [*range(1, 96), *[999] * 160, 1000]
    sheet = Sheet(lambda after: (Row(key, (key,)) for key in keys if key > after), {}, [])
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        rows, after = page_of(sheet, after)
        found += [row.key for row in rows]
    assert found == keys
    assert page_of(sheet, 999, 1) == ([Row(1000, (1000,))], None)


HOURS = Column("gpu_seconds", "GPU-h", Form.SECONDS, is_summed=True)
SECONDS = Column("gpu_seconds", "GPU-seconds", Form.SECONDS, is_summed=True)


def test_a_column_of_hours_has_one_number_of_digits_and_keeps_its_seconds():
    columns = (HOURS, Column("hours", "GPU-h", Form.HOURS), Column("day", "Day", Form.DAY))
    report = replace(next(iter(REPORTS.values())), columns=columns)
    day = datetime(2026, 11, 3, tzinfo=UTC).date()
    cells = [(360, Decimal("0.10"), day), (50, Decimal("0.013888889"), day), (0, None, day)]
    rows = [Row(key, one) for key, one in enumerate(cells, 1)]
    found = decimals_of(report, columns, rows, {"gpu_seconds": 410})
    shown = list(shown_rows(report, columns, NOVEMBER, rows, found))
    assert [row[0].text for row in shown] == ["0.100", "0.014", "0.000"]
    assert [row[1].text for row in shown] == ["0.100", "0.014", "—"]
    assert [row[0].value for row in shown] == ["360", "50", "0"]
    assert (shown[0][2].text, shown[0][2].value) == ("3 Nov 2026", "2026-11-03")


def test_self_checks_speak_the_unit_of_their_table():
    same = Check("GPU-seconds equal ledger", 600, 600, "GPU-s")
    assert check_words(same, [HOURS]) == "GPU-hours equal ledger: 0.17 GPU-hours"
    assert check_words(same, [SECONDS]) == "GPU-seconds equal ledger: 600 GPU-seconds"
    less = Bound("idle is at most held", 3600, 36_000, "GPU-s")
    assert check_words(less, [HOURS]) == "idle is at most held: 1.0 GPU-hours of 10.0 GPU-hours"
    # A second that is missing shows in seconds alone.
    wrong = check_words(replace(same, right=601), [HOURS])
    assert wrong == "GPU-hours equal ledger: NO, 600 against 601 GPU-seconds"


@pytest.mark.django_db
def test_every_report_of_teams_can_be_asked_for_the_platform(root, yard):
    close(root)
    for slug, report in REPORTS.items():
        if "team" in report.takes:
            rows_of(root, slug, replace(NOVEMBER, team="platform"))


@pytest.mark.django_db
def test_a_project_beside_its_team_needs_no_path(root, yard, team, project):
    set_budget(actor=root, owner=project, gpu_hours=100, now=MONTH["valid_from"], **MONTH)
    close(root)
    empty = []
    for slug, report in REPORTS.items():
        if {"team", "project"} <= report.takes:
            whole = rows_of(root, slug, replace(NOVEMBER, project=project.path))
            beside = replace(NOVEMBER, team=team.slug, project=project.slug)
            assert rows_of(root, slug, beside) == whole, slug
            if not whole:
                empty.append(slug)
    assert not {"team-statement", "segments", "budget-actual"} & set(empty)


@pytest.mark.django_db
def test_each_restatement_keeps_the_cause_it_was_reopened_for(root, clerk, yard):
    close(root)
    for number, price in enumerate(("3", "2")):
        restate(root, clerk, price)
        books.reopen_period(actor=clerk, period="2026-11", reason=f"cause {number}")
        books.reopen_period(actor=root, period="2026-11")
        close(root, now=LATER)
    books.reopen_period(actor=clerk, period="2026-11", reason="a mere proposal")
    report, _ = open_report(root, "restatements", NOVEMBER)
    names = [column.name for column in report.columns]
    found = {
        (row[names.index("version")], row[names.index("cause")])
        for row in rows_of(root, "restatements", NOVEMBER)
    }
    assert found == {(2, "cause 0"), (3, "cause 1")}


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["broken", "silent"])
def test_seconds_that_the_platform_shares_out_are_not_missing_from_an_attempt(
    root, clerk, yard, project, how
):
    terms = books.propose_terms(actor=clerk, pool=yard.pool, platform="by_use")
    books.approve_terms(actor=root, terms=terms)
    price_shares(root, clerk)
    attempt = Attempt.objects.get(job__project=project)
    if how == "broken":
        Attempt.objects.filter(pk=attempt.pk).update(end_reason=EndReason.NODE_LOST)
    else:
        Placement.objects.filter(attempt=attempt).update(ran_until=None)
        silence = "UPDATE scheduler_devicesegment SET bucket = 'unreachable'"
        spoil(f"{silence} WHERE bucket = 'run' AND attempt_id = {attempt.pk}")
    close(root)
    for each, words in ((attempt, "at most"), (Attempt.objects.exclude(pk=attempt.pk)[0], "equal")):
        _, sheet = open_report(root, "segments", replace(NOVEMBER, attempt=each.pk))
        (check,) = sheet.checks
        assert check.holds and words in check.words


@pytest.mark.django_db
def test_what_has_no_job_is_told_by_model_and_by_who_booked_it(root, clerk, yard, project):
    terms = books.propose_terms(actor=clerk, pool=yard.pool, idle="by_use")
    books.approve_terms(actor=root, terms=terms)
    price_shares(root, clerk, "idle-share")
    close(root)
    account = f"team:{project.team_id}/project:{project.pk}"
    shares = UsageLine.objects.filter(attempt=None, account=account).order_by("pk")
    other, *_, reserved = shares.values_list("pk", flat=True)
    spoil(f"UPDATE scheduler_usageline SET flavour = 'L4' WHERE id = {other}")
    as_booked = "kind = 'reserved-idle', holder = 'reserved:5'"
    spoil(f"UPDATE scheduler_usageline SET {as_booked} WHERE id = {reserved}")
    report, _ = open_report(root, "job-cost", NOVEMBER)
    names = [column.name for column in report.columns]
    wanted = [names.index(name) for name in ("name", "flavour")]
    rows = rows_of(root, "job-cost", replace(NOVEMBER, project=project.path))
    _, *found = [tuple(row[place] for place in wanted) for row in rows]
    assert sorted(found) == [
        ("idle-share, pool's share", "L4"),
        ("idle-share, pool's share", scenes.MODEL),
        ("reserved and not used", scenes.MODEL),
    ]


@pytest.mark.django_db
def test_what_a_close_wrote_that_something_kept_is_in_no_report(root, yard):
    last = Attempt.objects.order_by("pk").last()
    spoil(f"DELETE FROM scheduler_devicesegment WHERE bucket = 'run' AND attempt_id = {last.pk}")
    with pytest.raises(books.CloseBlocked):
        close(root)
    assert UsageLine.objects.exists()
    days = {"since": "2026-11-20", "until": "2026-11-21"}
    for ask in (NOVEMBER, replace(NOVEMBER, **days)):
        assert rows_of(root, "job-cost", ask) == []
        assert rows_of(root, "usage-lines", ask) == []
        _, sheet = open_report(root, "job-cost", ask)
        assert all(check.holds for check in sheet.checks), sheet.checks


def test_what_is_over_says_so_by_its_sign_and_an_end_is_a_state():
    over = Column("variance", "Over (+) or under cost", Form.AMOUNT)
    cells = (Decimal("418.44"), Decimal("-3"), Decimal(0), None)
    assert [shown(over, cell) for cell in cells] == ["+418.44", "−3.00", "0.00", "—"]
    assert shown(Column("cost", "Cost", Form.AMOUNT), Decimal(3)) == "3.00"
    ended = Column("end_reason", "Ended")
    words = {
        EndReason.COMPLETED: "succeeded",
        EndReason.EXIT_CODE: "failed",
        EndReason.TIME_LIMIT: "timed out",
        EndReason.MAX_COST_REACHED: "timed out: max cost reached",
        EndReason.OUT_OF_MEMORY: "failed: out of memory",
        EndReason.START_FAILED: "start failed",
        EndReason.CANCELLED_BY_USER: "cancelled by user",
        EndReason.PREEMPTED: "preempted",
        EndReason.IDLE_PAUSED: "idle paused",
    }
    assert {reason: shown(ended, str(reason)) for reason in words} == words
    assert shown(ended, "of_another_time") == "of another time"


def test_small_amounts_of_a_column_add_up_as_they_stand_there():
    rounding = [Decimal("-0.0023611127"), Decimal("0.00789"), Decimal("-0.00022"), Decimal(0)]
    places = amount_places([None, Decimal("577.5711"), *rounding])
    assert places == 5
    shown = [two_places(amount, places) for amount in (*rounding, sum(rounding))]
    assert shown == ["−0.00236", "0.00789", "−0.00022", "0.00", "0.00531"]
    assert two_places(Decimal("577.5711"), places) == "577.57"
    assert amount_places([Decimal("0.005"), Decimal(3), None]) is None
    # What six decimals do not show has its own first two digits.
    assert two_places(Decimal("0.00000000123"), amount_places([Decimal("0.00000000123")])) == (
        "0.0000000012"
    )


@pytest.mark.parametrize(
    ("cells", "foot", "fits"),
    [
        (("1,858.6", "865.2"), "2,723.8", True),
        (("858.6", "865.2"), "1,723.9", False),
        (("+0.31", "−0.30", "—"), "+0.01", True),
        (("—", "< 0.001"), "0.001", False),
        (("7.21 %", "4.84 %"), "", True),
    ],
)
def test_a_page_knows_whether_a_total_is_what_stands_above_it(cells, foot, fits):
    column = Column("used", "Used", Form.AMOUNT, is_summed=True)
    rows = [[ShownCell(column, text, "", "")] for text in cells]
    assert adds_up(rows, [(column, foot, "")]) is fits
    mean = replace(column, is_summed=False)
    assert adds_up([[replace(row[0], column=mean)] for row in rows], [(mean, foot, "")])

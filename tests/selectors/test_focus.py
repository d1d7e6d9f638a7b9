"""The export of a closed month keeps our rules and adds up to its statements."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.errors import Conflict, Forbidden, NotFound
from accounts.services import (
    appoint_bookkeeper,
    approve_rate,
    propose_rate,
    rename_team,
    set_cost_centre,
)
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.focus.columns import VERSIONS
from scheduler.ledger.focus.rules import check
from scheduler.models import (
    Attempt,
    Booking,
    Device,
    Job,
    LedgerEntry,
    Node,
    Period,
    Session,
    Statement,
)
from scheduler.selectors.books import focus
from scheduler.selectors.books.focus.kept import memory_of_models, racks_of_nodes
from scheduler.selectors.books.slugs import lines
from scheduler.services import books
from scheduler.states import EndReason
from tests.scenes import MODEL, NOON, at
from tests.selectors.test_reports import opened
from tests.services.test_books import DECEMBER, LATER, clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


def as_rows(table):
    return [dict(zip(table[0], row, strict=True)) for row in table[1:]]


def payable(closed) -> dict[str, Decimal]:
    return {
        f"{closed.period.name}/{s.number}": from_minor(s.units, "EUR")
        for s in Statement.objects.filter(close=closed)
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_a_closed_month_keeps_every_rule_and_adds_up(root, clerk, yard, project, version):
    adjustment = books.propose_adjustment(
        actor=clerk, project=project, amount=Decimal("-0.333"), reason="sorry", now=at(5)
    )
    books.post_adjustment(actor=root, adjustment=adjustment, now=at(6))
    closed = close(root)
    table = list(focus.focus_rows(root, "2026-11", version=version))
    # Two lines, the adjustment and the rounding of its tenth of a cent.
    assert [row["ChargeCategory"] for row in as_rows(table)] == ["Usage"] * 2 + ["Adjustment"] * 2
    assert list(check(table[0], as_rows(table), version, payable=payable(closed))) == []


def test_labels_of_jobs_are_tags(root, yard, project):
    job = Job.objects.get(project=project)
    job.spec = {**job.spec, "labels": {"experiment": "=lr,1", "model": 'ü "x"'}}
    job.save(update_fields=["spec"])
    close(root)
    table = list(focus.focus_rows(root, "2026-11"))
    tags = {row["x_JobId"]: row["Tags"] for row in as_rows(table)}
    assert json.loads(tags.pop(str(job.pk))) == {"experiment": "=lr,1", "model": 'ü "x"'}
    assert set(tags.values()) == {""}
    assert list(check(table[0], as_rows(table), "1.2")) == []


def test_a_correction_is_a_row_of_the_month_it_was_posted_in(root, yard, team):
    close(root)
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    books.correct_period(actor=root, period="2026-11", reason="lost", now=LATER)
    books.close_period(actor=root, period="2026-12", now=LATER.replace(month=2))
    closed = close(root, "2027-01", now=LATER.replace(month=2))
    rows = as_rows(list(focus.focus_rows(root, "2027-01")))
    assert {row["ChargeClass"] for row in rows} == {"Correction"}
    assert {row["x_CorrectsPeriod"] for row in rows} == {"2026-11"}
    # What the team gets back names the entry of November; the platform had none that it adds to.
    named = {row["SubAccountId"]: row for row in rows if row["x_CorrectsEntryId"]}
    assert set(named) == {f"team:{team.pk}"} and len(rows) == 2
    for row in named.values():
        first = LedgerEntry.objects.get(number=row["x_CorrectsEntryId"])
        assert (first.period.name, first.sku) == ("2026-11", row["SkuId"])
    assert list(check(list(rows[0]), rows, "1.2", payable=payable(closed))) == []


def test_rows_say_where_a_job_ran_in_whose_booking_and_what_it_was(
    root, yard, team, project, other_project
):
    """Of one rack and inside a booking of the team; the other is a session, of no known rack."""
    mine, session = Job.objects.get(project=project), Job.objects.get(project=other_project)
    Node.objects.filter(placements__attempt__job=mine).update(rack="r7")
    booking = Booking.objects.create(
        team=team, pool=yard.pool, nodes=1, from_at=at(0), until_at=at(9)
    )
    Job.objects.filter(pk=mine.pk).update(booked_in=booking)
    Session.objects.create(job=session, app="shell", idle_stop_s=600)
    close(root)
    rows = {row["x_JobId"]: row for row in as_rows(list(focus.focus_rows(root, "2026-11")))}
    names = ("AvailabilityZone", "CapacityReservationId", "CapacityReservationStatus")
    assert [rows[str(mine.pk)][name] for name in names] == [
        "r7",
        f"reserved:team:{team.pk}",
        "Used",
    ]
    assert [rows[str(session.pk)][name] for name in names] == ["", "", ""]
    kinds = [rows[str(one.pk)]["ResourceType"] for one in (mine, session)]
    assert kinds == ["GPU Job", "GPU Session"]
    said = rows[str(mine.pk)]["ChargeDescription"]
    assert said == f"1 x {MODEL}, run-guaranteed, team {team.name}, job {mine.pk}"


def test_how_long_a_job_waited_is_known_of_its_first_attempt(root, yard, project, other_project):
    came_s = (at(0) - timedelta(seconds=90)).timestamp()
    Attempt.objects.update(standing={"queued_at_s": came_s})
    Attempt.objects.filter(job__project=other_project).update(number=2)
    close(root)
    rows = as_rows(list(focus.focus_rows(root, "2026-11")))
    found = {row["x_ProjectId"]: row["x_QueueSeconds"] for row in rows if row["x_JobId"]}
    assert found == {f"project:{project.pk}": "90", f"project:{other_project.pk}": ""}


def test_a_closed_month_is_the_same_bytes_whatever_becomes_of_its_jobs(root, yard):
    Attempt.objects.update(standing={"queued_at_s": at(-90).timestamp()})
    close(root)
    before, (row, *_) = list(focus.focus_rows(root, "2026-11")), opened(root, "job-cost")[0]
    Job.objects.update(nodes=3, gpus_per_node=2, queued_at=DECEMBER, started_at=DECEMBER)
    assert list(focus.focus_rows(root, "2026-11")) == before
    assert opened(root, "job-cost")[0][0] == row and row["gpus"] == 1


def test_a_closed_month_is_the_same_bytes_whatever_its_teams_are_called_later(
    root, clerk, yard, team, other_team, project
):
    """A team changes its name and centre while it runs, and again after the close."""
    set_cost_centre(actor=root, team=team, code="CC-1", now=at(-3_600))
    # While its job runs: what counts is when that was given its node.
    set_cost_centre(actor=root, team=team, code="CC-2", now=at(60))
    rename_team(actor=root, team=team, name="Seers", now=at(61))
    adjustment = books.propose_adjustment(
        actor=clerk, project=project, amount=Decimal("-0.333"), reason="sorry", now=at(5)
    )
    books.post_adjustment(actor=root, adjustment=adjustment, now=at(6))
    close(root)
    before = list(focus.focus_rows(root, "2026-11"))
    found = {
        (row["SubAccountName"], row["x_CostCenterCode"], bool(row["x_JobId"]))
        for row in as_rows(before)
    }
    # Entries name what the month ended in; the other team never had a centre.
    assert found == {
        ("Vision", "CC-1", True),
        ("Seers", "CC-2", False),
        (other_team.name, "", True),
    }
    rename_team(actor=root, team=team, name="Foreseers", now=LATER)
    rename_team(actor=root, team=other_team, name="Speakers", now=LATER)
    for one in (team, other_team):
        set_cost_centre(actor=root, team=one, code="CC-3", name="Elsewhere", now=LATER)
    assert list(focus.focus_rows(root, "2026-11")) == before


def test_memory_of_gpus_is_that_of_the_close(root, yard):
    Device.objects.update(memory_mib=81_559)
    close(root)
    table = list(focus.focus_rows(root, "2026-11"))
    said = [json.loads(row["SkuPriceDetails"]) for row in as_rows(table) if row["SkuPriceDetails"]]
    assert said and {one["x_GpuMemoryGiB"] for one in said} == {80}
    assert {one["x_GpuModel"] for one in said} == {MODEL}
    Device.objects.filter(pk=Device.objects.earliest("pk").pk).update(memory_mib=40_960)
    assert list(focus.focus_rows(root, "2026-11")) == table
    # Of a model whose devices differ, a close keeps nothing.
    assert memory_of_models(Period(pk=0)) == {}
    assert list(check(table[0], as_rows(table), "1.2")) == []


def test_racks_are_those_of_the_close(root, yard, team):
    node = yard.node(1)
    Node.objects.filter(pk=node.pk).update(rack="r7")
    first = close(root)
    table = list(focus.focus_rows(root, "2026-11"))
    zones = {row["AvailabilityZone"] for row in as_rows(table) if row["x_JobId"]}
    assert zones == {"r7", ""}
    Node.objects.update(rack="r8")
    assert list(focus.focus_rows(root, "2026-11")) == table
    # What the first close kept, the next one keeps.
    assert racks_of_nodes(first.period) == first.racks


def test_a_close_of_before_racks_were_kept_names_those_of_today(root, yard, monkeypatch):
    monkeypatch.setattr("scheduler.services.books.closing.racks_of_nodes", lambda period: None)
    close(root)
    Node.objects.update(rack="r8")
    zones = {row["AvailabilityZone"] for row in as_rows(list(focus.focus_rows(root, "2026-11")))}
    assert "r8" in zones


def test_a_correction_is_for_the_centre_that_its_month_ended_in(root, yard, team):
    set_cost_centre(actor=root, team=team, code="CC-1", now=at(60))
    close(root)
    set_cost_centre(actor=root, team=team, code="CC-2", now=DECEMBER)
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    books.correct_period(actor=root, period="2026-11", reason="lost", now=LATER)
    for month in ("2026-12", "2027-01"):
        close(root, month, now=LATER.replace(month=2))
    rows = as_rows(list(focus.focus_rows(root, "2027-01")))
    mine = [row for row in rows if row["SubAccountId"] == f"team:{team.pk}"]
    assert {(row["ChargeClass"], row["x_CostCenterCode"]) for row in mine} == {
        ("Correction", "CC-1")
    }


def test_shares_name_the_policy_they_were_made_by(root, clerk, yard):
    terms = books.propose_terms(actor=clerk, pool=yard.pool, idle="hybrid", guarantee_percent=25)
    books.approve_terms(actor=root, terms=terms)
    rate = propose_rate(
        actor=clerk,
        device_model=MODEL,
        kind="idle-share",
        price_per_gpu_hour=Decimal("0.36"),
        valid_from=NOON - timedelta(days=1),
        restate=True,
        reason="shares begin",
    )
    approve_rate(actor=root, rate=rate)
    close(root)
    table = list(focus.focus_rows(root, "2026-11", version="1.3"))
    named = {(row["x_ChargeKind"], row["AllocatedMethodId"]) for row in as_rows(table)}
    shares = {method for kind, method in named if kind == "idle-share"}
    assert shares == {"idle-hybrid-25-v1"}
    assert {method for kind, method in named if kind != "idle-share"} == {""}
    assert list(check(table[0], as_rows(table), "1.3")) == []


def test_pages_change_nothing(root, yard, monkeypatch):
    close(root)
    whole = list(focus.focus_rows(root, "2026-11"))
    monkeypatch.setattr(lines, "PAGE", 1)
    assert list(focus.focus_rows(root, "2026-11")) == whole


def test_people_are_pseudonyms(root, yard, alice):
    close(root)
    text = "\n".join(",".join(row) for row in focus.focus_rows(root, "2026-11"))
    assert alice.username not in text


def test_only_bookkeepers_export_and_only_closed_months(root, yard, finance, alice):
    for person in (alice, finance):
        with pytest.raises(Forbidden):
            focus.focus_rows(person, "2026-11")
    with pytest.raises(NotFound):
        focus.focus_rows(root, "2026-11")
    books.soft_close_period(actor=root, period="2026-11", now=DECEMBER)
    with pytest.raises(Conflict, match="close it"):
        focus.focus_rows(root, "2026-11")
    close(root)
    appoint_bookkeeper(actor=root, user=finance)
    assert next(iter(focus.focus_rows(finance, "2026-11")))
    with pytest.raises(ValueError, match=r"1\.9"):
        focus.focus_rows(root, "2026-11", version="1.9")

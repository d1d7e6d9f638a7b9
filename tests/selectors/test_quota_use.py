"""Use of quotas: what was guaranteed and what was used of it stand on one line, and add up."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from scheduler.ledger.rating import DAY_S
from scheduler.models import GuaranteeSpan, Job, Quota
from scheduler.selectors.books.slugs.guaranteed.standing import Standing
from scheduler.services.sharing.limits import set_quota
from tests import scenes
from tests.scenes import at
from tests.selectors.test_reports import closed, opened
from tests.services.test_books import clerk, close, yard

__all__ = ["clerk", "closed", "yard"]
NOON = int(at(0).timestamp())
ADDRESS = "/finance/reports/quota-use/?period=2026-11"
_OTHER = "NVIDIA A100-SXM4-80GB"


def guaranteed(team, gpus, flavour="", **more):
    """From noon of the 20th on."""
    span = {"from_s": NOON, "quota": len(GuaranteeSpan.objects.all()) + 1, **more}
    GuaranteeSpan.objects.create(team=team, gpus=gpus, flavour=flavour, **span)


@pytest.mark.django_db
def test_quota_use_has_means_and_peaks(root, yard):
    rows, _ = opened(root, "quota-use", team="vision")
    (day,) = rows
    assert (day["peak_gpus"], day["used_gpu_seconds"]) == (1, 7_200)
    assert day["mean_gpus"] == Decimal("0.08")
    # Who is guaranteed nothing uses all of it beyond.
    assert (day["beyond_gpu_seconds"], day["used_percent"], day["guaranteed"]) == (
        7_200,
        None,
        None,
    )


@pytest.mark.django_db
def test_quota_use_tells_what_waiting_lending_caused(root, alice, yard, project, team):
    """Two GPUs guaranteed from noon, one held: of a wait for two, one is the guarantee's."""
    guaranteed(team, 2, scenes.MODEL, pool=yard.pool, until_s=NOON + DAY_S)
    waiting = scenes.submit(alice, project, now=at(0), nodes=2, gpu_model=scenes.MODEL)
    Job.objects.filter(pk=waiting.pk).update(started_at=at(3 * 3_600))
    # Nobody waits for GPUs in a job without any.
    scenes.submit(alice, project, now=at(0), gpus_per_node=0)
    rows, sheet = opened(root, "quota-use", team="vision")
    assert all(check.holds for check in sheet.checks)
    assert len(rows) == 2, rows
    first, second = rows
    assert (first["guaranteed"], first["used_gpu_seconds"]) == (2, 2 * 3_600)
    # 12 h of two, less two hours of one.
    assert first["guaranteed_gpu_seconds"] == 2 * 12 * 3_600
    assert first["unused_gpu_seconds"] == 2 * 12 * 3_600 - 2 * 3_600
    assert first["used_percent"] == Decimal("8.33")
    assert first["waited_gpu_seconds"] == 2 * 3 * 3_600
    # One GPU was short for two hours, then two for one hour.
    assert first["wait_caused_gpu_seconds"] == 2 * 3_600 + 2 * 3_600
    assert (second["guaranteed"], second["unused_gpu_seconds"]) == (2, 2 * 12 * 3_600)


@pytest.mark.django_db
def test_what_is_guaranteed_of_any_model_stands_beside_the_use_of_all(
    root, alice, yard, project, team
):
    """One line a day says guarantee and use; the models below are parts, and counted once."""
    guaranteed(team, 1)
    job = scenes.submit(alice, project, now=at(3_600))
    Job.objects.filter(pk=job.pk).update(started_at=at(4 * 3_600))
    rows, sheet = opened(root, "quota-use", team="vision")
    whole = [row for row in rows if row["flavour"] == "any model"]
    (part,) = (row for row in rows if row["flavour"] != "any model")
    assert (whole[0]["guaranteed_gpu_seconds"], whole[0]["used_gpu_seconds"]) == (43_200, 7_200)
    assert (whole[0]["within_gpu_seconds"], whole[0]["beyond_gpu_seconds"]) == (7_200, 0)
    assert whole[0]["used_percent"] == Decimal("16.67")
    # The one GPU guaranteed is held until two hours after noon, and missing for two more.
    assert (whole[0]["waited_gpu_seconds"], whole[0]["wait_caused_gpu_seconds"]) == (
        3 * 3_600,
        2 * 3_600,
    )
    assert (part["day"], part["flavour"]) == (whole[0]["day"], scenes.MODEL)
    assert (part["model_gpu_seconds"], part["used_gpu_seconds"]) == (7_200, None)
    assert part["unused_gpu_seconds"] is part["guaranteed"] is part["waited_gpu_seconds"] is None
    sums = sheet.totals
    assert sums["used_gpu_seconds"] == sums["model_gpu_seconds"] == 7_200
    assert sums["guaranteed_gpu_seconds"] == 7_200 + sums["unused_gpu_seconds"]
    assert len(whole) == 11 and all(check.holds for check in sheet.checks)


@pytest.mark.django_db
def test_what_a_named_model_is_guaranteed_is_on_the_line_of_all_and_beside_its_part(
    root, yard, team
):
    guaranteed(team, 1)
    guaranteed(team, 1, _OTHER)
    rows, sheet = opened(root, "quota-use", team="vision")
    first, *parts = [row for row in rows if row["day"] == rows[0]["day"]]
    assert (first["guaranteed"], first["guaranteed_gpu_seconds"]) == (2, 2 * 43_200)
    assert (first["within_gpu_seconds"], first["used_percent"]) == (7_200, Decimal("8.33"))
    found = {row["flavour"]: (row["guaranteed"], row["model_gpu_seconds"]) for row in parts}
    assert found == {scenes.MODEL: (None, 7_200), _OTHER: (1, 0)}
    assert all(check.holds for check in sheet.checks)


def test_guarantees_are_held_against_use_moment_by_moment():
    """Four of any and two of x: of six y four are covered, of six x all, of both as they come."""
    stands = Standing(0, sorted([(0, "", 4), (0, "x", 2), (90, "x", -2)], reverse=True))
    for _ in range(6):
        stands.hold(10, 20, "y")
    for _ in range(6):
        stands.hold(30, 40, "x")
    for model in "xyyyyy":
        stands.hold(50, 60, model)
    stands.wait(70, 80, 5)
    stands.go_to(100)
    (day,) = stands.days.values()
    assert (day.used, day.within) == (180, 10 * (4 + 6 + 5))
    assert (day.promised, day.unused) == (6 * 90 + 4 * 10, 6 * 90 + 4 * 10 - 150)
    assert (day.waited, day.caused, day.peak, day.guaranteed) == (50, 50, 6, 6)


@pytest.mark.django_db
def test_a_team_s_month_has_its_share_on_page_and_in_groups(client, root, team, yard):
    """What a controller asks: by whom, how much of the guarantee, how much beyond it."""
    set_quota(actor=root, owner=team, guaranteed=1, maximum=4, now=at(0))
    assert Quota.objects.exists() and GuaranteeSpan.objects.get().flavour == ""
    close(root)
    client.force_login(root)
    page = client.get(ADDRESS).context
    names = [column.name for column, _ in page["columns"]]
    sums = page["sheet"].totals
    share = (Decimal(7_200) * 100 / sums["guaranteed_gpu_seconds"]).quantize(Decimal("0.01"))
    foot = {column.name: text for column, text, _ in page["foot"]}
    assert foot["used_percent"] == f"{share} %" and "used_percent" not in sums
    assert foot["team"] == "" and not {"guaranteed", "mean_gpus"} & set(names)
    whole = client.get(f"{ADDRESS}&rows=all&columns=all").context
    assert {"guaranteed", "mean_gpus"} <= {column.name for column, _ in whole["columns"]}
    assert whole["details"] == [] and page["details"]
    (problem,) = client.get(f"{ADDRESS}&columns=some").context["problems"]
    assert problem == "columns: 'some' is not known; choose from all."
    grouped = client.get(f"{ADDRESS}&by=team").context
    assert [ok for ok, _ in grouped["checks"]] == [True] * 5
    rows = {row[0].text: {cell.column.name: cell.text for cell in row} for row in grouped["rows"]}
    assert rows["vision"]["used_percent"] == f"{share} %"
    assert rows["speech"]["used_percent"] == "—" and rows["speech"]["beyond_gpu_seconds"] == "1.0"
    file = b"".join(client.get(f"{ADDRESS}&by=team&format=csv")).decode("utf-8-sig")
    (vision,) = (row for row in csv.DictReader(io.StringIO(file)) if row["team"] == "vision")
    assert (vision["used_percent"], vision["within_gpu_seconds"]) == (str(share), "7200")


@pytest.mark.django_db
@pytest.mark.parametrize("rows", ["", "&rows=all"])
def test_use_of_all_models_leads_to_the_seconds_of_all(client, root, team, yard, rows):
    guaranteed(team, 1)
    close(root)
    client.force_login(root)
    page = client.get(f"{ADDRESS}&team=vision&columns=all{rows}").context
    cells = [cell for row in page["rows"] for cell in row if "/segments/" in cell.url]
    assert {cell.column.name for cell in cells} >= {"used_gpu_seconds", "model_gpu_seconds"}
    for cell in cells:
        found = client.get(cell.url.replace("/finance/", "/api/v1/finance/", 1)).json()
        if cell.column.name.endswith("gpu_seconds"):
            assert found["totals"]["gpu_seconds"] == cell.value


def _texts(page):
    return [{cell.column.name: cell.text for cell in row} for row in page["rows"]]


@pytest.mark.django_db
def test_a_month_is_first_shown_by_team_and_model_and_day_by_day_on_request(
    client, root, team, yard
):
    guaranteed(team, 1)
    close(root)
    client.force_login(root)
    page = client.get(ADDRESS)
    body, lines = page.content.decode(), _texts(page.context)
    assert [(line["team"], line["flavour"]) for line in lines] == [
        ("speech", "H100 80GB"),
        ("vision", "any model"),
        ("vision", "H100 80GB"),
    ]
    assert not {"day", "peak_gpus"} & set(lines[0])
    # Of half a day and ten whole ones of a GPU two hours were used; the model is a part of that.
    assert (lines[1]["guaranteed_gpu_seconds"], lines[1]["used_gpu_seconds"]) == ("252.0", "2.0")
    assert (lines[1]["used_percent"], lines[2]["used_percent"]) == ("0.79 %", "—")
    assert (lines[2]["used_gpu_seconds"], lines[2]["model_gpu_seconds"]) == ("—", "2.0")
    assert all(holds for holds, _ in page.context["checks"])
    # What it adds up to, its picture and its files are those of the days.
    whole = client.get(f"{ADDRESS}&rows=all")
    days = whole.context
    assert [text for *_, text in page.context["foot"][2:]] == [
        text for column, _, text in days["foot"] if column.name in lines[0]
    ][2:]
    assert page.context["pictures"] == days["pictures"]
    file = b"".join(client.get(f"{ADDRESS}&format=csv")).decode("utf-8-sig")
    sent = client.get(f"/api/v1{ADDRESS}&limit=1000").json()["rows"]
    count = len(list(csv.DictReader(io.StringIO(file))))
    assert count == len(sent) == len(days["rows"]) == page.context["rows_behind"] > len(lines)
    assert f"3 rows by team and GPU; {count} in files" in body
    assert ">By team and GPU</a>" in whole.content.decode()
    # A team leads to its days, and stays within what it was narrowed to.
    (link,) = {row[0].url for row in page.context["rows"] if row[0].text == "vision"}
    behind = _texts(client.get(link).context)
    assert {row["team"] for row in behind} == {"vision"} and len(behind) == 12
    narrowed = client.get(f"{ADDRESS}&from=2026-11-20&to=2026-11-21&rows=all").context
    assert 0 < len(narrowed["rows"]) < count and not narrowed["problems"]


@pytest.mark.django_db
def test_what_is_asked_of_the_rows_is_said_where_it_is_not_known(client, root, yard):
    close(root)
    client.force_login(root)
    page = client.get(f"{ADDRESS}&rows=some").context
    assert page["problems"] == ["rows: 'some' is not known; choose from all."] and page["rows"]
    # Groups that somebody asks for come before those of the page, and an order stays.
    grouped = client.get(f"{ADDRESS}&by=day").context
    assert grouped["columns"][0][0].name == "day" and not grouped["rows_behind"]
    sorted_ = _texts(client.get(f"{ADDRESS}&sort=-used_gpu_seconds").context)
    assert [row["used_gpu_seconds"] for row in sorted_] == ["2.0", "1.0"]
    # Where there is nothing, nothing is taken together.
    empty = client.get(ADDRESS.replace("2026-11", "2025-01")).context
    assert empty["rows"] == [] and not empty["rows_behind"]

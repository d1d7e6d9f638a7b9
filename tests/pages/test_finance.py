"""The finance pages: a statement on paper, what leads where, as many SQL statements as ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts.models import AuditEvent
from accounts.services import give_role
from portal.bench.money.repeating import repeat_month
from scheduler.ledger.periods import Month
from scheduler.models import Budget, Notification, OutboundMail, Statement, StatementEvent
from scheduler.selectors.books.catalogue import REPORTS, reports_for
from scheduler.services.sharing.budgets import set_budget
from tests import factories
from tests.selectors.test_reports import closed
from tests.services.test_books import clerk, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "closed", "yard"]


def test_a_statement_is_a_sheet_of_paper(client, root, lead, carol, closed, team):
    number = Statement.objects.get(account=f"team:{team.pk}").number
    address = reverse("finance:statement", kwargs={"number": number})
    for viewer in (root, lead):
        client.force_login(viewer)
        page = client.get(address)
        assert page.status_code == 200
        text = page.content.decode()
        assert "6.87 EUR" in text and closed.head_hash in text
        assert all(check.holds for check in page.context["paper"].checks)
    client.force_login(carol)
    assert client.get(address).status_code == 404


def test_figures_lead_to_their_seconds(client, root, closed):
    """Summary → statement → job cost → lines → segments: each page links to the next one."""
    client.force_login(root)
    address = "/finance/reports/period-summary/?period=2026-11"
    for slug in ("team-statement", "job-cost", "usage-lines", "segments"):
        page = client.get(address)
        links = [cell.url for row in page.context["rows"] for cell in row if slug in cell.url]
        assert links, slug
        address = links[-1]
    assert client.get(address).context["checks"][0][0] is True


@pytest.mark.parametrize(
    ("slug", "measures"),
    [
        ("capacity", {"in_service_gpu_seconds", "run_gpu_seconds", "free_gpu_seconds"}),
        ("quota-use", {"used_gpu_seconds"}),
        ("budget-actual", {"actual_gpu_seconds"}),
    ],
)
def test_figures_of_seconds_are_the_segments_they_lead_to(
    client, root, team, closed, slug, measures
):
    set_budget(
        actor=root,
        owner=team,
        gpu_hours=100,
        valid_from=datetime(2026, 11, 1, tzinfo=UTC),
        valid_until=datetime(2026, 12, 1, tzinfo=UTC),
        now=datetime(2026, 11, 1, tzinfo=UTC),
    )
    client.force_login(root)
    page = client.get(f"/finance/reports/{slug}/?period=2026-11")
    cells = [cell for row in page.context["rows"] for cell in row if "/segments/" in cell.url]
    assert measures <= {cell.column.name for cell in cells}
    for cell in [cell for cell in cells if cell.column.name in measures][:4]:
        found = client.get(cell.url.replace("/finance/", "/api/v1/finance/", 1)).json()
        assert found["rows"]
        if slug != "budget-actual":  # it counts what its own jobs held, whenever that was
            assert found["totals"]["gpu_seconds"] == cell.value
        assert client.get(cell.url).status_code == 200


def test_a_day_of_another_month_is_refused_by_field(client, root, closed):
    client.force_login(root)
    address = "/finance/reports/segments/?period=2026-11"
    for more, words in (
        ("&day=2026-12-01", "day: Name a day of 2026-11"),
        ("&day=never", "day: Name a day of 2026-11"),
        ("&day=2026-11-02&bucket=lost", "bucket: Name one of allocated"),
        ("", "attempt: Name an attempt, a day"),
    ):
        page = client.get(address + more)
        assert page.status_code == 200 and words in page.content.decode()


def test_reports_have_their_picture_where_there_is_something(client, root, closed):
    client.force_login(root)

    def pictures(slug):
        return client.get(f"/finance/reports/{slug}/?period=2026-11").context["pictures"]

    (adjustments,) = pictures("adjustments")
    assert adjustments.figure["data"][0]["x"] == [-0.33]
    assert adjustments.summary.endswith(": effect −0.33 EUR.")
    assert pictures("audit-extract") == []
    assert pictures("restatements") == []


def test_the_picture_of_groups_shows_what_the_table_shows(client, root, closed):
    client.force_login(root)
    page = client.get("/finance/reports/team-statement/?period=2026-11&by=team").context
    figure, names = page["pictures"][0].figure, [column.name for column, _ in page["columns"]]
    billed = {row[0].text: float(row[names.index("billed")].value) for row in page["rows"]}
    assert dict(zip(figure["data"][0]["y"], figure["data"][0]["x"], strict=True)) == billed
    assert figure["layout"]["xaxis"]["title"]["text"] == f"Billed, {page['sheet'].currency}"


def test_rows_are_taken_together_by_a_column_and_across_another(client, root, closed):
    client.force_login(root)
    address = "/finance/reports/period-summary/?period=2026-11"
    whole = client.get(address).context["sheet"].totals
    page = client.get(address + "&by=team")
    found = page.context["sheet"]
    assert dict(found.totals) == dict(whole) and all(ok for ok, _ in page.context["checks"])
    teams = [row[0].text for row in page.context["rows"]]
    assert teams == sorted(set(teams)) and len(teams) == 2
    across = client.get(address + "&by=team&across=project&figure=total")
    assert sum(across.context["sheet"].totals.values()) == whole["total"]
    assert b"total:" in b"".join(client.get(address + "&by=team&across=project&format=csv"))
    for more, words in (
        ("&by=total", "by: Choose from"),
        ("&across=team", "by: Name what to group by"),
        ("&by=team&across=team", "across: Group by one"),
    ):
        assert words in client.get(address + more).content.decode()
    trail = client.get("/finance/reports/job-cost/?period=2026-11&by=team")
    assert "too long to be grouped" in trail.content.decode()


def test_a_statement_is_sent_disputed_answered_and_settled(client, root, clerk, lead, closed, team):
    number = Statement.objects.get(account=f"team:{team.pk}").number
    address = reverse("finance:statement", kwargs={"number": number})

    def act(person, act, status=302, **data):
        client.force_login(person)
        reply = client.post(f"{address}{act}/", data)
        assert reply.status_code == status, reply.content
        return reply

    act(lead, "send", 403)
    act(clerk, "send")
    assert address in OutboundMail.objects.get(person=lead).text
    act(lead, "dispute", 422, text=" ")
    act(clerk, "dispute", 403, text="mine")
    act(lead, "dispute", text="the node was down")
    act(lead, "dispute", 409, text="again")
    told = Notification.objects.filter(kind="request_waiting", path=address)
    assert {row.person for row in told} == {clerk, root}
    assert {row.text for row in told} == {"the node was down"}
    act(clerk, "settle", 409)
    page = client.get(address).content.decode()
    assert "the node was down" in page and "disputed" in page
    assert "1 disputed statement waits for an answer" in client.get("/finance/").content.decode()
    act(clerk, "answer", text="credited as an adjustment")
    assert "for an answer" not in client.get("/finance/").content.decode()
    (row,) = Notification.objects.filter(kind="request_decided", path=address)
    assert (row.person, row.text) == (lead, "credited as an adjustment")
    act(clerk, "answer", 409, text="again")
    act(clerk, "settle")
    act(lead, "dispute", 409, text="late")
    said = list(StatementEvent.objects.values_list("step", flat=True))
    assert said == ["sent", "disputed", "answered", "settled"]
    assert AuditEvent.objects.filter(action="statement.disputed").count() == 1


def test_a_line_of_a_statement_leads_to_its_lines(client, lead, closed, team):
    number = Statement.objects.get(account=f"team:{team.pk}").number
    client.force_login(lead)
    page = client.get(reverse("finance:statement", kwargs={"number": number}))
    traces = [(line, trace) for _, found in page.context["projects"] for line, trace in found]
    line, trace = next((line, trace) for line, trace in traces if trace)
    sheet = client.get(f"/finance/reports/usage-lines/?{trace}").context["sheet"]
    assert sheet.totals["amount"] == line.amount


def cells_of(client, slug: str) -> dict[str, str]:
    """What the page, the API, and the file show of a report, each as one text."""
    query = "?period=2026-11"
    page = client.get(f"/finance/reports/{slug}/{query}")
    api = client.get(f"/api/v1/finance/reports/{slug}/{query}")
    table = client.get(f"/finance/reports/{slug}/{query}&format=csv")
    file = client.get(f"/api/v1/finance/reports/{slug}/file/{query}")
    for reply in (page, api, table, file):
        assert reply.status_code == 200
    rows = page.context["rows"]
    assert rows and api.json()["rows"]
    return {
        "page": page.content.decode().split("<main")[1],
        "api": str(api.json()["rows"]),
        "csv": b"".join(table).decode(),
        "file": b"".join(file).decode(),
    }


def test_names_of_people_show_only_to_those_with_the_right(client, root, clerk, lead, closed):
    """Administrators and auditors read names of all, leads of their team's; bookkeepers none."""
    auditor = factories.person("looks")
    give_role(actor=root, user=auditor, role="auditor")
    read = {}
    for viewer in (root, auditor, lead, clerk):
        client.force_login(viewer)
        read[viewer.username] = cells_of(client, "job-cost")
    for name in (root.username, auditor.username):
        for where, text in read[name].items():
            assert "alice" in text and "carol" in text, (name, where)
    for where, text in read[lead.username].items():
        assert "alice" in text and "carol" not in text, where
    for where, text in read[clerk.username].items():
        assert "alice" not in text and "carol" not in text, where


@pytest.mark.parametrize("who", ["clerk", "lead", "alice"])
def test_pages_keep_to_their_statements_however_many_months(client, request, who, closed):
    """At most 8 for a report, 10 for the index; twelve months cost no more. Administrators open all
    pages in `test_money_budgets`.
    """
    viewer = request.getfixturevalue(who)
    client.force_login(viewer)
    slugs = [report.slug for report in reports_for(viewer)] + ["usage-lines"]

    def counts() -> dict[str, int]:
        found = {}
        addresses = [f"reports/{slug}/?period=2026-11" for slug in slugs]
        addresses.append("reports/usage-lines/?from=2026-11-02&to=2026-11-28")
        for address in ["", *addresses]:
            with CaptureQueriesContext(connection) as context:
                assert client.get(f"/finance/{address}").status_code == 200
            found[address] = len(context)
        return found

    before = counts()
    repeat_month(Month.parse("2026-11"), 12)
    after = counts()
    # With a second closed month the index compares two: one statement more, and that is all.
    assert after.pop("") <= min(10, before.pop("") + 1)
    assert after == before
    assert max(before.values()) <= 8, before


@pytest.mark.parametrize("name", ["team", "project"])
def test_a_team_or_project_that_is_none_or_foreign_is_said_above_the_report(
    client, root, lead, other_project, closed, name
):
    """In the same words, so that nobody learns what others have."""
    foreign = other_project.path if name == "project" else other_project.team.slug
    words = f"{name}: There is no such team"
    for slug, report in REPORTS.items():
        if name not in report.takes:
            continue
        address = reverse("finance:report", args=[slug])
        client.force_login(root)
        page = client.get(address, {name: "nowhere/none"})
        assert page.status_code == 200 and words in page.context["problems"][0], slug
        client.force_login(lead)
        pages = [client.get(address, {name: value}) for value in ("nowhere/none", foreign)]
        if [page.status_code for page in pages] != [403, 403]:
            said = [
                (page.status_code, page.context["problems"], page.context["rows"]) for page in pages
            ]
            assert said[0] == said[1] and words in said[0][1][0], slug
    assert client.get("/finance/reports/nothing/").status_code == 404


def test_an_attempt_that_held_nothing_is_said_above_its_seconds(client, root, closed):
    client.force_login(root)
    page = client.get(reverse("finance:report", args=["segments"]), {"attempt": "987654"})
    assert page.status_code == 200 and "held nothing in that month" in page.content.decode()


def test_budgets_open_with_this_month_and_their_notes_stand_below(client, root, team, closed):
    now = timezone.now()
    budget = set_budget(
        actor=root, owner=team, gpu_hours=9, valid_from=now - timedelta(hours=1),
        valid_until=now + timedelta(hours=20),
    )  # fmt: skip
    Budget.objects.update(spent_s=3600)
    client.force_login(root)
    page = client.get("/finance/reports/budget-actual/")
    assert page.context["ask"].period == f"{now:%Y-%m}"
    assert client.get("/finance/reports/period-summary/").context["ask"].period == "2026-11"
    assert client.get("/api/v1/finance/reports/budget-actual/").json()["period"] == f"{now:%Y-%m}"
    text = page.content.decode()
    table, _, below = text.partition("</table>")
    note = "It was not held against the ledger yet"
    assert note not in table and note in below and f"Budget {budget.pk} of {team.slug}" in below

"""The finance pages: a statement on paper, what leads where, as many SQL statements as ever."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.services import give_role
from scheduler.models import LedgerEntry, Period, PeriodClose, Statement, UsageLine
from scheduler.selectors.books.catalogue import reports_for
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


def test_the_index_has_months_checks_and_reports(client, root, alice, closed):
    client.force_login(root)
    page = client.get("/finance/").content.decode()
    assert "10.47 EUR" in page and "Reconciliation" in page and "/finance/focus/" in page
    client.force_login(alice)
    page = client.get("/finance/").content.decode()
    assert "10.47" not in page and "/finance/focus/" not in page and "Job cost" in page


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


def year_of(closed) -> None:
    """Eleven more months with the same figures."""
    lines = list(UsageLine.objects.all())
    entries = list(LedgerEntry.objects.order_by("number"))
    last = entries[-1].number
    for month in range(1, 12):
        period = Period.objects.create(
            name=f"2025-{month:02d}", currency="EUR", state="closed", version=1
        )
        close = PeriodClose.objects.get(pk=closed.pk)
        close.pk, close.period = None, period
        close.save(force_insert=True)
        for line in lines:
            line.pk, line.period = None, period
        UsageLine.objects.bulk_create(lines)
        for entry in entries:
            last += 1
            entry.pk, entry.number, entry.period, entry.service_period = None, last, period, period
        LedgerEntry.objects.bulk_create(entries)


@pytest.mark.parametrize("who", ["root", "clerk", "lead", "alice"])
def test_pages_keep_to_their_statements_however_many_months(client, request, who, closed):
    """At most 8 for a report, 10 for the index, whoever looks; twelve months cost no more."""
    viewer = request.getfixturevalue(who)
    client.force_login(viewer)
    slugs = [report.slug for report in reports_for(viewer)] + ["usage-lines"]

    def counts() -> dict[str, int]:
        found = {}
        for address in ["", *(f"reports/{slug}/?period=2026-11" for slug in slugs)]:
            with CaptureQueriesContext(connection) as context:
                assert client.get(f"/finance/{address}").status_code == 200
            found[address] = len(context)
        return found

    before = counts()
    year_of(closed)
    assert counts() == before
    assert before.pop("") <= 10
    assert max(before.values()) <= 8, before

"""The audit extract: in order of time, in words on the page, in the code's own words in files."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

import pytest

from accounts.models import AuditEvent
from portal.reports.books.cells import short_text
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.frame import Ask

pytestmark = pytest.mark.django_db
MONTH = "2026-02"
ADDRESS = f"/finance/reports/audit-extract/?period={MONTH}"


@pytest.fixture
def written(root):
    """Five events; the one that was written last happened first, and two at one moment."""
    for number, minute in enumerate((1, 2, 2, 3, 0)):
        AuditEvent.objects.create(
            at=datetime(2026, 2, 3, 12, minute, 0, 250, tzinfo=UTC),
            actor=root,
            actor_name=root.username,
            action="period.soft_close",
            area="money",
            subject_kind="report_file",
            subject_label=f"n{number}",
        )


def labels(rows) -> list[str]:
    return [row.cells[7] for row in rows]


def test_events_stand_in_order_of_time_and_are_counted(root, written):
    _, sheet = open_report(root, "audit-extract", Ask(MONTH))
    rows = list(sheet.rows(0))
    assert labels(rows) == ["n4", "n0", "n1", "n2", "n3"] and sheet.count == 5
    assert labels(sheet.rows(rows[1].key)) == ["n1", "n2", "n3"]
    # Both of one moment are on one page.
    assert rows[2].key == rows[3].key and labels(sheet.rows(rows[2].key)) == ["n3"]


def test_a_page_says_in_words_what_a_file_says_in_codes(client, root, written):
    client.force_login(root)
    page = client.get(ADDRESS)
    texts = [[cell.text for cell in row] for row in page.context["rows"]]
    assert {tuple(row[1:5]) for row in texts} == {
        (root.username, "—", "Month closed softly", "report file")
    }
    assert ">5 rows; details: Event, Address<" in page.content.decode()
    assert "A seal is a numbered batch" in page.content.decode()
    assert short_text("subject", "quotarequest") == "quota request"
    file = b"".join(client.get(f"{ADDRESS}&format=csv")).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(file)))
    assert {(row["action"], row["subject"]) for row in rows} == {
        ("period.soft_close", "report_file")
    }
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)


def test_budgets_are_named_by_whose_they_are_in_older_events_too(client, root, team, project):
    old = {
        f"team:{team.pk} 2026-01-01 - 2027-01-01": f"{team.slug}, 1 Jan – 31 Dec 2026",
        f"project:{project.pk} 2026-01-01 - 2126-01-01": f"{project.path}, 1 Jan 2026 – no end",
        "org 2026-01-01 - 2126-01-01": "the organisation, 1 Jan 2026 – no end",
        # A team that is gone; what is no day; a name of today.
        "team:999999 2026-01-01 - 2026-02-01": "team:999999, 1 – 31 Jan 2026",
        "org 2026-13-01 - 2126-01-01": "org 2026-13-01 - 2126-01-01",
        "vision, 1 Jan 2026 – no end": "vision, 1 Jan 2026 – no end",
    }
    for label in old:
        AuditEvent.objects.create(
            at=datetime(2026, 2, 3, 12, tzinfo=UTC), action="budget.set", area="money",
            subject_kind="budget", subject_label=label,
        )  # fmt: skip
    client.force_login(root)
    page = client.get(ADDRESS)
    assert [row[5].text for row in page.context["rows"]] == list(old.values())
    file = b"".join(client.get(f"{ADDRESS}&format=csv")).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(file)))
    assert [row["subject_label"] for row in rows] == list(old.values())
    listed = client.get("/audit/?object=budget").content.decode()
    assert all(words in listed for words in old.values())

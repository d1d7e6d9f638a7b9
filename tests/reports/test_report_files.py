"""F15: page, API, CSV, XLSX and Parquet give the same figures; files are safe and repeatable."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import re
from decimal import Decimal
from html import unescape

import pyarrow.parquet as pq
import pytest

from accounts.models import AuditEvent, Team
from accounts.services import SCOPES, issue_token
from portal.reports.books.cells import exact_text
from portal.reports.streams import StreamedFile, csv_file
from scheduler.models import Job, UsageLine
from scheduler.selectors.books.catalogue import REPORTS
from tests.reports.workbook import cells_of, sheet_names, sheet_xml
from tests.selectors.test_reports import closed
from tests.services.test_books import clerk, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "closed", "yard"]
EVERY = [slug for slug in REPORTS if slug != "audit-extract"]


@pytest.fixture
def ask(client, root, closed):
    """`ask(slug, form)`: what root gets, and `form="api"` for programs."""
    client.force_login(root)
    attempt = UsageLine.objects.exclude(attempt=None).order_by("pk").first().attempt_id

    def send(slug, form="", **more):
        query = {"period": "2026-11", **({"attempt": attempt} if slug == "segments" else {})}
        if form == "api":
            return client.get(f"/api/v1/finance/reports/{slug}/", {**query, **more})
        query |= {"format": form} if form else {}
        return client.get(f"/finance/reports/{slug}/", {**query, **more})

    return send


def content(reply) -> bytes:
    assert reply.status_code == 200
    return b"".join(reply.streaming_content) if reply.streaming else reply.content


def numbers_of_page(reply) -> list[str]:
    body = reply.content.decode().partition("<tbody>")[2].partition("</tbody>")[0]
    return [unescape(value) for value in re.findall(r'<data value="([^"]*)"', body)]


@pytest.mark.parametrize("slug", EVERY)
def test_all_five_give_the_same_figures(ask, slug):
    report = REPORTS[slug]
    rows = list(csv.DictReader(io.StringIO(content(ask(slug, "csv")).decode("utf-8-sig"))))
    api = ask(slug, "api").json()
    sent = [dict(zip(api["columns"], row, strict=True)) for row in api["rows"]]
    table = pq.read_table(io.BytesIO(content(ask(slug, "parquet")))).to_pylist()
    book = cells_of(content(ask(slug, "xlsx")))
    assert len(rows) == len(sent) == len(table) == len(book)
    numbers, page = [], ask(slug, rows="all")
    shown = [column for column, _ in page.context["columns"]]
    left_out = page.context["left_out"]
    for line, row in enumerate(rows):
        for column in report.columns:
            name, text = column.name, row[column.name]
            assert exact_text(sent[line][name]) == text
            cell = table[line][name]
            exact = f"{name}_exact"
            if column.form == "text":
                assert (cell or "") == text
                assert book[line].get(name, "") == text
            else:
                assert exact_text(cell) == text
                if exact in book[0]:
                    assert book[line].get(exact, "") == text
                    assert Decimal(book[line].get(name, "0")) == Decimal(text or "0")
            if column in left_out:
                assert text in ("", "0")
        numbers.extend(row[column.name] for column in shown if column.form != "text")
    assert numbers_of_page(page) == numbers
    assert all(check["holds"] for check in api["checks"]), api["checks"]


@pytest.mark.parametrize("form", ["csv", "xlsx", "parquet"])
def test_a_manifest_tells_what_the_file_is(ask, form):
    sent = content(ask("team-statement", form))
    found = json.loads(content(ask("team-statement", "manifest", of=form)))
    assert found["sha256"] == hashlib.sha256(sent).hexdigest()
    assert (found["bytes"], found["rows"], found["period_version"]) == (len(sent), 3, 1)
    assert found["totals"]["billed"] == "10.47"
    assert all(check["holds"] for check in found["checks"])


def test_an_api_file_is_the_page_file(ask, client):
    for form in ("csv", "manifest"):
        path = "/api/v1/finance/reports/job-cost/file/"
        there = client.get(path, {"period": "2026-11", "format": form})
        here = ask("job-cost", form)
        if form == "csv":
            assert content(there) == content(here)
        else:
            assert json.loads(content(there)) == json.loads(content(here))
    assert AuditEvent.objects.filter(action="export.report").count() == 4


def test_pages_of_rows_are_the_whole(ask):
    whole = ask("job-cost", "api").json()
    first = ask("job-cost", "api", limit="1").json()
    rest = ask("job-cost", "api", limit="1", after=str(first["next_after"])).json()
    assert first["rows"] + rest["rows"] == whole["rows"]
    assert (rest["next_after"], first["totals"]) == (None, whole["totals"])


def test_sorting_changes_the_order_and_nothing_else(ask):
    falling = ask("period-summary", "api", sort="-total").json()
    rising = ask("period-summary", "api", sort="total").json()
    assert falling["rows"] == rising["rows"][::-1]
    assert falling["totals"] == rising["totals"]


HOSTILE = [
    '=HYPERLINK("http://x")',
    "＝1+1",
    "@x",
    "-2+3",
    "+1",
    "\t=1",
    "a,b;c",
    'say "hi"',
    'a"\n;b,c',
    "<b>&",
    "\u202etxt",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(ask, name):
    Job.objects.update(name=name)
    (row, _) = csv.DictReader(io.StringIO(content(ask("job-cost", "csv")).decode("utf-8-sig")))
    guard = "'" if name[0] in "=＝@-+\t" else ""
    assert row["name"] == guard + name
    raw = content(ask("job-cost", "csv", raw="1", bom="0", separator="semicolon")).decode()
    assert next(csv.DictReader(io.StringIO(raw), delimiter=";"))["name"] == name
    xlsx = content(ask("job-cost", "xlsx"))
    assert cells_of(xlsx)[0]["name"] == name
    assert "<f>" not in sheet_xml(xlsx) and "hyperlink" not in sheet_xml(xlsx)
    page = ask("job-cost").content.decode()
    assert "<b>&" not in page and "\u202e" not in page


def test_b83_no_name_of_ours_is_the_name_of_a_sheet(ask, team):
    """Spreadsheets refuse some characters and more than 31 of them; files are named by slugs."""
    hostile = "[]:*?/\\" * 6
    Team.objects.filter(pk=team.pk).update(name=hostile)
    Job.objects.update(name=hostile)
    for slug in ("job-cost", "team-statement"):
        reply = ask(slug, "xlsx")
        assert f'filename="{slug}-2026-11.xlsx"' in reply["Content-Disposition"]
        assert sheet_names(content(reply)) == ["Report"]
    assert {row["name"] for row in cells_of(content(ask("job-cost", "xlsx")))} == {hostile}


def test_a_workbook_is_typed_and_its_header_stays(ask):
    xml = sheet_xml(content(ask("team-statement", "xlsx")))
    assert 'state="frozen"' in xml and "<f>" not in xml
    assert re.search(r'<c r="[A-Z]+2"(?: s="\d+")?><v>[\d.]+</v>', xml)


def test_a_missing_library_is_said_before_anything_is_sent(ask, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    page = ask("job-cost", "parquet")
    assert page.status_code == 200 and "trainyard[parquet]" in page.content.decode()


def test_wrong_values_are_a_page_with_words(ask, client):
    page = ask("job-cost", after="x", format="doc", attempt="-1").content.decode()
    for name in ("after", "format", "attempt"):
        assert f"{name}: " in page
    assert ask("period-summary", sort="what").status_code == 200
    assert ask("nothing").status_code == 404
    reply = client.get("/api/v1/finance/reports/job-cost/", {"attempt": "x"})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (400, "attempt")
    assert client.get("/api/v1/finance/reports/job-cost/", {"teem": "x"}).status_code == 400


def test_days_are_asked_for_where_a_report_has_them(ask):
    days = {"from": "2026-11-20", "to": "2026-11-21"}
    page = ask("capacity", **days)
    assert len(page.context["rows"]) == 2 and "20 Nov 2026 to 21 Nov 2026" in page.content.decode()
    # A figure of a day leads to that day, one of several days to the same days.
    assert "day=2026-11-20" in page.context["rows"][0][3].url
    links = [c.url for row in ask("job-cost", **days).context["rows"] for c in row if "?" in c.url]
    assert links and all("from=2026-11-20&to=2026-11-21" in url for url in links)
    made = json.loads(content(ask("capacity", "manifest", **days)))
    assert made["filter"] == days and made["rows"] == 2
    assert ask("capacity", "api", **days).json()["totals"] == made["totals"]
    for slug, query, words in (
        ("period-summary", days, "counts whole months"),
        ("capacity", {"from": "2026-02-30"}, "is not a day"),
        ("capacity", {"from": "2026-11-21", "to": "2026-11-20"}, "lies before"),
        ("capacity", {"from": "2024-11-21", "to": "2026-11-20"}, "366 days at most"),
    ):
        page = ask(slug, **query)
        assert page.status_code == 200 and words in page.content.decode(), slug
        assert ask(slug, "api", **query).status_code in (400, 422)


def test_programs_need_their_scope(client, root, closed):
    _, secret = issue_token(actor=root, name="t", scopes=["jobs:read"], expires_in_days=1)
    headers = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    assert client.get("/api/v1/finance/reports/", **headers).status_code == 403
    _, secret = issue_token(actor=root, name="u", scopes=SCOPES, expires_in_days=1)
    items = client.get("/api/v1/finance/reports/", HTTP_AUTHORIZATION=f"Bearer {secret}").json()[
        "items"
    ]
    assert "period-summary" in {item["slug"] for item in items}


def test_an_asynchronous_server_gets_blocks_as_they_are_made():
    taken = []

    def blocks():
        for number in range(3):
            taken.append(number)
            yield b"x"

    assert _begun(StreamedFile(blocks(), name="x.csv", content_type="text/csv")) == b"x"
    assert len(taken) == 1


def test_an_asynchronous_server_gets_some_lines_of_a_table_at_a_time():
    taken = []

    def rows():
        for number in range(10_000):
            taken.append(number)
            yield [number]

    table = csv_file(["one"], rows(), name="x.csv")
    first = _begun(table).decode().splitlines()
    assert len(first) == len(taken) + 1 < 1000
    rest = b"".join(table.streaming_content).decode().splitlines()
    assert len(first) + len(rest) == 10_001 and rest[-1] == "9999"


def _begun(reply: StreamedFile) -> bytes:
    """The first block, as an asynchronous server takes it."""

    async def read() -> bytes:
        async for block in reply:
            return block
        return b""

    return asyncio.run(read())

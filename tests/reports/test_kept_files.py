"""F27: a report's file is made once, and a download of it that broke off goes on."""

from __future__ import annotations

import csv
import hashlib
import http.client
import io
import json
import zipfile
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.core.files.storage import InMemoryStorage, default_storage
from django.core.management import call_command
from django.utils import timezone

from accounts.models import AuditEvent
from accounts.services import give_role, take_role
from portal.reports.books import making, sending
from portal.reports.books.making import make_report_files
from portal.reports.ranges import asked_range
from scheduler.models import ReportFile
from scheduler.selectors.kept.reports import report_files_of
from scheduler.services.kept import reports as kept
from scheduler.services.kept.reports import (
    MOST_WAITING,
    Made,
    ask_report_file,
    claim_report_files,
    keep_report_file,
    prune_report_files,
    read_report_file,
    refuse_report_file,
)
from tests.selectors.test_reports import closed
from tests.services.test_books import clerk, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "closed", "yard"]


def asked(actor, slug="job-cost", form="csv", **more) -> ReportFile:
    return ask_report_file(actor=actor, slug=slug, period="2026-11", file_format=form, **more)


@pytest.mark.django_db(transaction=True)
def test_a_download_that_broke_off_goes_on(client, root, closed, live_server):
    """Over a real connection: half of it, the line drops, the rest; the digest says it is whole."""
    row = asked(root)
    assert make_report_files(now=timezone.now()) == 1
    row.refresh_from_db()
    client.force_login(root)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    server = urlsplit(live_server.url)

    def fetched(most=None, method="GET", **headers) -> tuple[http.client.HTTPResponse, bytes]:
        line = http.client.HTTPConnection(server.hostname, server.port, timeout=10)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        line.request(method, f"/finance/exports/{row.pk}/", headers={"Cookie": cookie, **names})
        reply = line.getresponse()
        got = reply.read(most)
        line.close()
        return reply, got

    reply, first = fetched(100)
    assert (reply.status, reply.headers["Accept-Ranges"]) == (200, "bytes")
    assert reply.headers["Content-Length"] == str(row.size) and row.size > 200 and len(first) == 100
    tag = reply.headers["ETag"]
    reply, rest = fetched(Range="bytes=100-", If_Range=tag)
    assert (reply.status, reply.headers["Content-Range"]) == (
        206,
        f"bytes 100-{row.size - 1}/{row.size}",
    )
    assert hashlib.sha256(first + rest).hexdigest() == row.digest == tag.strip('"')
    reply, whole = fetched(Range="bytes=100-", If_Range='"another"')
    assert (reply.status, len(whole)) == (200, row.size)
    reply, _ = fetched(Range=f"bytes={row.size}-")
    assert (reply.status, reply.headers["Content-Range"]) == (416, f"bytes */{row.size}")
    reply, nothing = fetched(method="HEAD")
    assert (reply.headers["Content-Length"], nothing) == (str(row.size), b"")
    parts = [event.after for event in AuditEvent.objects.filter(action="export.file")]
    assert len(parts) == 3 and sum("bytes 100-" in part for part in parts) == 1


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-", (0, 10)),
        ("bytes=3-5", (3, 6)),
        ("bytes=3-99", (3, 10)),
        ("bytes=-4", (6, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=5-3", None),
        ("bytes=0-1,4-5", None),
        ("bytes=-", None),
        ("lines=1-2", None),
        ("bytes=１-2", None),
        ("bytes=10-", ValueError),
        ("bytes=-0", ValueError),
    ],
)
def test_a_part_is_cut_as_the_standard_says(header, part):
    if part is ValueError:
        with pytest.raises(ValueError, match="bytes"):
            asked_range(header, 10)
    else:
        assert asked_range(header, 10) == part


def test_a_file_is_its_askers_alone_and_goes_after_a_while(
    client, root, clerk, closed, monkeypatch, tmp_path
):
    # No other test's files lie there.
    monkeypatch.setattr(default_storage, "location", str(tmp_path))
    row = asked(clerk)
    client.force_login(clerk)
    assert client.get(f"/finance/exports/{row.pk}/").status_code == 409
    make_report_files(now=timezone.now())
    row.refresh_from_db()
    text = b"".join(client.get(f"/finance/exports/{row.pk}/")).decode("utf-8-sig")
    assert len(list(csv.DictReader(io.StringIO(text)))) == row.rows == 2
    assert row.digest[:12] in client.get("/finance/exports/").content.decode()
    client.force_login(root)
    assert client.get(f"/finance/exports/{row.pk}/").status_code == 404
    later = timezone.now() + timedelta(days=15)
    assert prune_report_files(now=later) == 1 and prune_report_files(now=later) == 0
    assert not default_storage.exists(f"reports/{row.pk}")
    client.force_login(clerk)
    page = client.get(f"/finance/exports/{row.pk}/")
    assert page.status_code == 409 and "ask for it again" in page.content.decode()


def test_what_cannot_be_made_says_why_and_a_lost_maker_is_replaced(root, clerk, closed):
    lost = asked(root, query={"team": "nowhere"})
    now = timezone.now()
    assert [row.pk for row in claim_report_files(now=now)] == [lost.pk]
    assert make_report_files(now=now) == 0
    focus = asked(clerk, slug="focus", form="1.3")
    assert make_report_files(now=now + timedelta(minutes=6)) == 1
    lost.refresh_from_db()
    assert "no such team" in lost.problem and not lost.is_waiting
    focus.refresh_from_db()
    with default_storage.open(focus.path) as file, zipfile.ZipFile(file) as archive:
        assert "manifest.json" in archive.namelist()


def test_two_makers_of_a_file_leave_one(clerk, closed, monkeypatch):
    """In a store that writes over what has the same name."""
    store = InMemoryStorage()
    monkeypatch.setattr(store, "get_available_name", lambda name, max_length=None: name)
    monkeypatch.setattr(kept, "default_storage", store)
    row = asked(clerk)
    made = Made("x.csv", 1, 1, 3, "0" * 64, {})
    for text in (b"one", b"two"):
        keep_report_file(row, io.BytesIO(text), made, now=timezone.now())
    refuse_report_file(row, "it came too late")
    row.refresh_from_db()
    assert row.problem == "" and b"".join(read_report_file(row, 0, 3)) == b"one"


def test_files_are_claimed_when_their_turn_comes(clerk, root, closed):
    now = timezone.now() - timedelta(minutes=4)
    asked(clerk), asked(root)
    for row in claim_report_files(now=now):
        assert row.claimed_at > now + timedelta(minutes=3)


def test_a_long_file_says_how_far_it_is_and_keeps_its_maker(client, clerk, closed, monkeypatch):
    row = asked(clerk)
    monkeypatch.setattr(making, "_TELL_S", 0.0)
    seen = []

    def told(*args, **known):
        note_progress(*args, **known)
        client.force_login(clerk)
        page = client.get("/finance/exports/").content.decode()
        far = ReportFile.objects.get(pk=row.pk)
        # Nobody else takes it over while it is heard of.
        soon = known["now"] + timedelta(minutes=4)
        seen.append((far.rows, far.size, "being made, so far" in page))
        assert list(claim_report_files(now=soon)) == []

    note_progress = kept.note_progress
    monkeypatch.setattr(kept, "note_progress", told)
    assert make_report_files(now=timezone.now() - timedelta(hours=1)) == 1
    row.refresh_from_db()
    assert seen[-1] == (row.rows, row.size, True) and row.rows == 2


def test_a_fault_of_ours_keeps_no_other_file_from_being_made(clerk, closed, monkeypatch):
    first, second = asked(clerk), asked(clerk, slug="capacity")
    make = making._make

    def broken(row, now):
        if row.pk == first.pk:
            raise RuntimeError("a fault")
        make(row, now)

    monkeypatch.setattr(making, "_make", broken)
    assert make_report_files(now=timezone.now()) == 1
    first.refresh_from_db()
    second.refresh_from_db()
    assert "our fault" in first.problem and second.made_at is not None


@pytest.mark.parametrize("slug", ["usage-lines", "job-cost"])
def test_what_is_too_long_to_be_sent_is_made_in_the_background(
    client, clerk, closed, slug, monkeypatch
):
    """By itself, from the same address, on the page and over REST; the same file for both."""
    address = f"/api/v1/finance/reports/{slug}/file/"
    narrowed = {"period": "2026-11", "separator": "semicolon"}
    client.force_login(clerk)
    sent = client.get(address, narrowed)
    whole = b"".join(sent)
    assert sent.status_code == 200 and not ReportFile.objects.exists()
    monkeypatch.setattr(sending, "MOST_SENT", 1)
    answer = client.get(address, narrowed)
    told = answer.json()
    assert (answer.status_code, told["slug"], told["made_at"]) == (202, slug, None)
    assert told["query"] == {"separator": "semicolon"}
    page = client.get(f"/finance/reports/{slug}/", {**narrowed, "format": "csv"}, follow=True)
    assert page.redirect_chain == [("/finance/exports/", 302)]
    assert "is being made" in page.content.decode()
    assert make_report_files(now=timezone.now()) == 1
    assert b"".join(client.get(f"/finance/exports/{told['id']}/")) == whole
    # Grouped rows and the manifest are few, however long the report is.
    for few in ({"by": "account"}, {"format": "manifest"}):
        assert (
            client.get(
                f"/finance/reports/{slug}/", {"format": "csv", **narrowed, **few}
            ).status_code
            == 200
        )
    assert ReportFile.objects.count() == 1


def test_wishes_are_refused_with_their_reason(client, root, alice, closed):
    client.force_login(root)
    send = {"slug": "job-cost", "period": "2026-11", "format": "csv"}
    assert client.post("/finance/exports/", {**send, "format": "doc"}).status_code == 422
    narrowed = {**send, "sku": "x", "slug": "capacity"}
    assert client.post("/finance/exports/", narrowed).status_code == 422
    assert client.post("/finance/exports/", {**send, "period": "never"}).status_code == 422
    assert client.post("/finance/exports/", {**send, "slug": "nothing"}).status_code == 404
    # What would be refused once it is made is refused now, with the same words.
    for wrong, status, words in (
        ({"team": "nowhere"}, 404, "no such team"),
        ({"slug": "focus", "format": "1.2", "period": "2026-10"}, 404, "no books"),
        ({"sort": "-nothing"}, 422, "ledger"),
    ):
        page = client.post("/finance/exports/", {**send, **wrong})
        assert page.status_code == status and words in page.content.decode(), wrong
        body = {**send, **{name: wrong[name] for name in wrong.keys() & send.keys()}}
        body["query"] = {name: wrong[name] for name in wrong.keys() - send.keys()}
        told = client.post("/api/v1/finance/files/", body, content_type="application/json")
        assert told.status_code == status and words in told.content.decode(), told.content
    assert ReportFile.objects.count() == 0
    for number in range(MOST_WAITING):
        wish = {**send, "attempt": number + 1}
        assert client.post("/finance/exports/", wish).status_code == 302
    assert client.post("/finance/exports/", wish).status_code == 302
    assert ReportFile.objects.count() == MOST_WAITING, "asked for twice, made once"
    assert client.post("/finance/exports/", send).status_code == 409
    client.force_login(alice)
    assert client.post("/finance/exports/", {**send, "slug": "capacity"}).status_code == 403


def test_a_file_goes_with_the_right_it_was_made_with(client, root, carol, closed):
    """Its asker may open the report still, but would see less in it."""
    grant = give_role(actor=root, user=carol, role="finance")
    row = asked(carol)
    assert make_report_files(now=timezone.now()) == 1
    client.force_login(carol)
    assert client.get(f"/finance/exports/{row.pk}/").status_code == 200
    take_role(actor=root, user=carol, role=grant.role)
    assert client.get("/finance/reports/job-cost/").status_code == 200
    assert client.get(f"/finance/exports/{row.pk}/").status_code == 404
    # It is not offered either; nor is what an older version could make.
    assert report_files_of(carol) == []
    give_role(actor=root, user=carol, role="finance")
    assert report_files_of(carol) == [row]
    ReportFile.objects.filter(pk=row.pk).update(slug="gone")
    assert report_files_of(carol) == []
    assert client.get(f"/finance/exports/{row.pk}/").status_code == 404


def test_the_command_deletes_files_of_reports_as_the_task_does(root, capsys):
    row = ReportFile.objects.create(
        asked_by=root, asked_at=timezone.now(), slug="focus", period="2026-01", file_format="1.3",
        made_at=timezone.now() - timedelta(days=4000), path="reports/none",
    )  # fmt: skip
    for words, pruned in ((["--dry-run"], False), ([], True)):
        call_command("prune", *words)
        assert json.loads(capsys.readouterr().out)["reports"] == 1
        row.refresh_from_db()
        assert (row.pruned_at is not None) is pruned

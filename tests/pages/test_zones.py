"""Pages in the zone of the browser; all that leaves them, and the books, in UTC."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django import forms
from django.conf import settings
from django.template import engines
from django.test import AsyncClient
from django.urls import reverse
from django.utils import timezone

from portal.forms.cluster.bookings import MomentField
from portal.forms.money.finance import EndForm
from portal.forms.requests import WishForm, days_between, hours_between
from portal.forms.spans import read_span
from portal.pages.cluster.moments import read_moment
from portal.reports.charts import stamp
from portal.reports.log_rows import gaps_above
from portal.serving.zones import zone_of
from scheduler.models import Booking, Job, PoolHour
from scheduler.selectors.printed.silences import Silence
from scheduler.selectors.waits.buckets import counted
from tests.pages.matrix import ROWS
from tests.pages.test_matrix import address, people, things
from tests.pages.yard import build_yard

__all__ = ["people", "things"]

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
BERLIN, KOLKATA, NEW_YORK = "Europe/Berlin", "Asia/Kolkata", "America/New_York"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


@pytest.fixture
def seen(client, alice, yard):
    """`seen(zone, address)`: the page as alice's browser in that zone gets it. The queued job of
    the yard was submitted at noon."""
    Job.objects.filter(pk=yard.queued.pk).update(submitted_at=NOON, queued_at=NOON)
    client.force_login(alice)

    def get(zone: str, address: str, **more: str) -> str:
        client.cookies["zone"] = zone
        answer = client.get(address, more)
        assert answer.status_code == 200
        return (b"".join(answer) if answer.streaming else answer.content).decode()

    return get


@pytest.mark.django_db
def test_a_page_is_local_and_its_file_in_utc(seen) -> None:
    page = seen(BERLIN, "/jobs/")
    assert 'datetime="2026-11-20T12:00:00Z" title="20 Nov 2026, 13:00:00 CET"' in page
    assert "Times are in Europe/Berlin." in page
    file = seen(BERLIN, "/jobs/", part="csv")
    assert "2026-11-20T12:00:00+00:00" in file and "13:00:00" not in file


@pytest.mark.django_db
def test_one_page_after_another_has_its_own_zone(seen) -> None:
    told = (
        (BERLIN, "13:00:00 CET"),
        (KOLKATA, "17:30:00 IST"),
        ("America/Sao_Paulo", "09:00:00 UTC-03"),
        ("", "12:00:00 UTC"),
    )
    for zone, hour in told:
        assert f'title="20 Nov 2026, {hour}"' in seen(zone, "/jobs/"), zone
        assert timezone.get_current_timezone_name() == "UTC"


@pytest.mark.django_db(transaction=True)
def test_pages_side_by_side_in_an_event_loop_keep_apart(alice, yard) -> None:
    Job.objects.filter(pk=yard.queued.pk).update(submitted_at=NOON)
    client = AsyncClient()
    client.force_login(alice)
    session = client.cookies[settings.SESSION_COOKIE_NAME]

    async def get(zone: str) -> str:
        own = AsyncClient()
        own.cookies[session.key] = session.value
        own.cookies["zone"] = zone
        return (await own.get("/jobs/")).content.decode()

    async def together() -> list[str]:
        return await asyncio.gather(*(get(zone) for zone in (BERLIN, KOLKATA, "") * 3))

    told = async_to_sync(together)()
    for number, page in enumerate(told):
        hour = ("13:00:00 CET", "17:30:00 IST", "12:00:00 UTC")[number % 3]
        assert f'title="20 Nov 2026, {hour}"' in page


@pytest.mark.django_db
@pytest.mark.parametrize(
    "zone",
    ["../../etc/passwd", "/etc/localtime", "Europe", "Mars/Olympus", "x" * 5000, "Europe/Berlin\0"],
)
def test_a_zone_that_is_none_is_utc(seen, zone) -> None:
    page = seen(zone, "/jobs/")
    assert "Times are in UTC." in page and 'title="20 Nov 2026, 12:00:00 UTC"' in page


@pytest.mark.once
@pytest.mark.django_db
def test_no_page_mixes_zones(people, things, client) -> None:
    client.force_login(people["root"])
    client.cookies["zone"] = KOLKATA
    mixed, said = [], {KOLKATA: 0, "UTC": 0}
    for row in ROWS:
        if row.method != "GET" or row.statuses["root"] != 200:
            continue
        answer = client.get(address(row, things), row.data)
        assert answer.status_code == 200, row.route
        if answer.streaming or "html" not in answer.headers["Content-Type"]:
            continue
        html = answer.content.decode()
        hovers = {text.split()[-1] for text in re.findall(r'<time[^>]* title="([^"]+)"', html)}
        for zone in re.findall(r"Times are in ([\w/]+)\.", html):
            said[zone] += bool(hovers)
            if hovers - {"IST" if zone == KOLKATA else "UTC"}:
                mixed.append((row.route, zone, hovers))
    assert mixed == [] and said[KOLKATA] > 30 and said["UTC"] > 8


def test_charts_go_by_the_page_and_rows_for_many_by_utc() -> None:
    silence = Silence(NOON, NOON + timedelta(minutes=3))
    with timezone.override(zone_of({"zone": BERLIN})):
        assert stamp(NOON) == "2026-11-20T13:00:00.000000"
        said = gaps_above([silence], [(7, NOON + timedelta(minutes=4))], "n1")[7]
    assert said.startswith("n1 was not heard 20 Nov 2026, 12:00:00 to 12:03:00 UTC; ")
    late = Silence(NOON + timedelta(hours=11), NOON + timedelta(hours=13))
    said = gaps_above([late], [(7, NOON + timedelta(hours=14))], "n1")[7]
    assert "20 Nov 2026, 23:00:00 to 21 Nov 2026, 01:00:00 UTC; " in said


def test_utc_under_other_names_and_by_choice_is_utc() -> None:
    for cookies in ({}, {"zone": "UTC"}, {"zone": "Etc/UTC"}, {"zone": BERLIN, "times": "utc"}):
        assert zone_of(cookies) is UTC
    assert str(zone_of({"zone": BERLIN, "times": "browser"})) == BERLIN


@pytest.mark.django_db
def test_whoever_chose_utc_has_it(seen, client) -> None:
    assert "As this browser's clock" in seen(BERLIN, "/settings/profile/")
    client.post("/settings/keys/", {"times": "utc"})
    page = seen(BERLIN, "/settings/profile/")
    assert "Times are in UTC." in page
    assert '<button class="btn" name="times" value="utc" aria-pressed="true">' in page


@pytest.mark.django_db
def test_the_api_and_the_books_are_in_utc(client, finance, seen, yard, root) -> None:
    answer = seen(BERLIN, f"/api/v1/jobs/{yard.queued.pk}/")
    assert '"submitted_at":"2026-11-20T12:00:00Z"' in answer
    assert "Times are in UTC." in seen(BERLIN, "/usage/")
    client.force_login(finance)
    client.cookies["zone"] = BERLIN
    assert "Times are in UTC." in client.get("/finance/").content.decode()
    client.force_login(root)
    client.cookies["zone"] = BERLIN
    assert "Times are in UTC." in client.get("/audit/").content.decode()


@pytest.mark.django_db
def test_a_booking_goes_through_its_form_in_the_zone_that_it_names(
    client, lead, project, yard
) -> None:
    client.force_login(lead)
    client.cookies["zone"] = KOLKATA
    url = reverse("bookings:list")
    begin = (timezone.now() + timedelta(days=2)).replace(hour=6, minute=0, second=0, microsecond=0)
    page = client.get(url, {"from_at": f"{begin:%Y-%m-%dT%H:%M}Z"}).content.decode()
    typed = f"{begin:%Y-%m-%d}T11:30"
    assert f'value="{typed}"' in page and "Both in Asia/Kolkata." in page
    sent = {"owner": project.path, "pool": "default", "nodes": "1", "from_at": typed}
    sent["until_at"] = f"{begin:%Y-%m-%d}T13:30"
    page = client.post(url, sent, follow=True).content.decode()
    made = Booking.objects.get()
    assert (made.from_at, made.until_at) == (begin, begin + timedelta(hours=2))
    assert f">{begin:%-d %b %Y}, 11:30</time>" in page and "When (Asia/Kolkata)" in page
    assert f", {begin:%-d %b} 11:30 to {begin:%-d %b} 13:30 IST</title>" in page
    # A sentence that says UTC means it.
    page = client.post(url, sent | {"nodes": "2"}).content.decode()
    assert "In the way: booking" in page and f"{begin:%-d %b %Y}, 06:00 to" in page


def test_an_hour_that_clocks_skip_or_repeat_is_refused() -> None:
    class Form(forms.Form):
        at = MomentField()

    with timezone.override(zone_of({"zone": BERLIN})):
        for typed in ("2026-03-29T02:30", "2026-10-25T02:30"):
            form = Form({"at": typed})
            assert not form.is_valid()
            assert form.errors["at"] == [
                "02:30 comes twice or not at all on that day, as clocks are changed in "
                "Europe/Berlin; choose an hour earlier or later."
            ]
            problems: list[str] = []
            assert not read_span({"from": typed}, now=NOON, problems=problems)
            assert problems and problems[0].startswith("from: 02:30 comes twice")
            with pytest.raises(ValueError, match="comes twice"):
                read_moment(typed, NOON)
        for typed, hour in (
            ("2026-10-25T03:30", 2),
            ("2026-10-25T02:30Z", 2),
            ("2026-07-01T09:00", 7),
        ):
            form = Form({"at": typed})
            assert form.is_valid() and form.cleaned_data["at"].hour == hour
            assert form.cleaned_data["at"].tzinfo is UTC
        for edge in ("0001-01-01T00:00", "never", "2026-13-01T00:00"):
            assert Form({"at": edge}).errors["at"] == ["Enter a valid date/time."]


def test_a_request_has_hours_of_the_page_and_days_of_utc() -> None:
    def wish(**times: str) -> WishForm:
        return WishForm({"amount": "1", "justification": "why", **times})

    with timezone.override(zone_of({"zone": NEW_YORK})):
        end = datetime(2026, 12, 1, tzinfo=UTC)
        assert days_between(NOON, end)["valid_until"] == end.date()
        hours = hours_between(NOON, end)
        assert (f"{hours['valid_until']}", f"{hours['until_hour']:%H:%M}") == (
            "2026-11-30",
            "19:00",
        )
        form = wish(
            valid_from="2026-11-21", valid_until="2026-11-30", until_hour="19:00", from_hour=""
        )
        assert form.is_valid() and "America/New_York" in form.fields["until_hour"].help_text
        asked = form.wish(NOON)
        assert asked["valid_from"] == datetime(2026, 11, 21, tzinfo=UTC)
        assert asked["valid_until"] == end
        form = wish(valid_from="2027-03-14", from_hour="02:30", valid_until="2027-03-15")
        assert not form.is_valid() and "comes twice or not at all" in form.errors["from_hour"][0]


def test_prices_begin_and_end_in_utc_wherever_they_are_typed() -> None:
    with timezone.override(zone_of({"zone": BERLIN})):
        form = EndForm({"valid_until": "2026-12-01 00:00"})
        assert form.is_valid()
        assert form.cleaned_data["valid_until"].astimezone(UTC).hour == 0
        shown = EndForm(initial={"valid_until": datetime(2026, 12, 1, tzinfo=UTC)})
        assert "2026-12-01 00:00:00" in str(shown["valid_until"])


def test_days_of_limits_are_those_of_utc_and_the_calendar_has_an_end() -> None:
    template = engines["django"].from_string("{% utc_day x %}|{% at x %}|{% absolute x %}")

    def said(at: datetime) -> str:
        return template.render({"x": at})

    with timezone.override(zone_of({"zone": NEW_YORK})):
        text = said(datetime(2026, 12, 1, tzinfo=UTC))
        assert ">1 Dec 2026 (UTC)</time>|" in text and ">30 Nov 2026, 19:00</time>|" in text
        assert ">30 Nov 2026, 19:00 EST</time>" in text
        span = {"a": datetime(2026, 11, 1, tzinfo=UTC), "b": datetime(2026, 12, 1, tzinfo=UTC)}
        days = engines["django"].from_string("{% utc_days a b %}").render(span)
        assert ">1</time> – <time" in days and ">30 Nov 2026 (UTC)</time>" in days
    with timezone.override(zone_of({"zone": BERLIN})):
        assert "31 Dec 9999, 23:59" in said(datetime.max.replace(tzinfo=UTC))
    assert ">1 Dec 2026</time>|" in said(datetime(2026, 12, 1, tzinfo=UTC))


@pytest.mark.django_db
def test_the_map_of_the_week_goes_by_local_hours(seen, yard) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    PoolHour.objects.create(
        pool=yard.cluster.pool,
        hour=hour,
        submitted=1,
        started=1,
        waits=counted([600.0]),
        told=0,
        within_p50=0,
        within_p90=0,
    )
    page = seen(KOLKATA, "/queue/", pool="default")
    there = hour.astimezone(zone_of({"zone": KOLKATA}))
    assert "by weekday and hour (Asia/Kolkata)" in page
    assert f"{there:%a %H}:00, nobody started" not in page
    assert page.count(":00, nobody started") == 7 * 24 - 1
    assert "begins 30 minutes into the hour" in page
    assert "minutes into the hour" not in seen(BERLIN, "/queue/", pool="default")

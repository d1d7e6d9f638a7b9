"""Pages of requests: the form, the inbox, the decision; looking changes nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Role, User
from scheduler.models import Booking, Grant, QuotaRequest, RequestEvent, WhatIf
from scheduler.services.requesting.asking import revise_request
from scheduler.services.requesting.foreseeing.whatif import ask_whatif
from scheduler.services.sharing.limits import set_quota
from tests import factories, requesting, scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.fixture
def asked(cluster, alice, project, lead):
    return requesting.ask(alice, project, now=timezone.now())


def fields(project, **more):
    today = timezone.localdate()
    return {
        "owner": project.path,
        "kind": "guaranteed",
        "amount": "2",
        "valid_from": today.isoformat(),
        "valid_until": (today + timedelta(days=30)).isoformat(),
        "justification": "The long-context phase begins on Monday.",
        "action": "submit",
        **more,
    }


def test_asking_by_the_form(client, cluster, alice, lead, project):
    client.force_login(alice)
    page = client.get("/requests/new/").content.decode()
    assert "GPU-hours used in 90 days" in page
    reply = client.post("/requests/new/", fields(project))
    made = QuotaRequest.objects.get()
    assert (reply.status_code, reply.url) == (302, f"/requests/{made.pk}/")
    assert made.state == "lead_review"
    assert "vision/digits" in client.get("/requests/").content.decode()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"amount": "2,5"}, "whole number"),
        ({"amount": "-1"}, "greater than or equal to 1"),
        ({"amount": "99999999999"}, "less than or equal to"),
        ({"valid_until": "soon"}, "valid date"),
        ({"valid_from": "2020-01-01"}, "has passed"),
        ({"owner": "speech/asr"}, "valid choice"),
        ({"gpu_model": "B9000"}, "valid choice"),
        ({"kind": "maximum"}, "keeps you back"),
        ({"justification": "please"}, "what it is for"),
    ],
)
def test_the_form_says_what_is_wrong(
    client, cluster, alice, lead, project, other_project, more, words
):
    client.force_login(alice)
    reply = client.post("/requests/new/", fields(project, **more))
    assert reply.status_code == 200
    assert words in reply.content.decode()
    assert not QuotaRequest.objects.exists()


def test_an_estimate_stores_nothing(client, cluster, root, alice, lead, team, project):
    client.force_login(alice)
    said = client.post("/requests/new/", fields(project, action="estimate")).content.decode()
    assert "nothing to replay" in said
    set_quota(actor=root, owner=team, maximum=2)
    now = timezone.now()
    for _ in range(3):
        job = scenes.submit(alice, project, now=now - timedelta(days=1), gpus_per_node=2)
        begin = now - timedelta(days=1)
        type(job).objects.filter(pk=job.pk).update(
            queued_at=begin, started_at=begin, ended_at=begin + timedelta(hours=1)
        )
    wish = fields(project, owner="vision", kind="maximum", action="estimate")
    said = client.post("/requests/new/", wish).content.decode()
    assert "instead of" in said
    assert not QuotaRequest.objects.exists()


def test_a_booking_is_asked_for_by_the_hour_and_decided_on(client, cluster, alice, lead, project):
    client.force_login(alice)
    assert "Ask for a booking" in client.get("/bookings/").content.decode()
    page = client.get("/requests/new/?kind=reservation").content.decode()
    assert '<option value="reservation" selected>' in page
    day = (timezone.localdate() + timedelta(days=1)).isoformat()
    wish = {"kind": "reservation", "amount": "4", "valid_from": day, "valid_until": day}
    wish |= {"from_hour": "08:00", "until_hour": "18:30", "pool": "default"}
    said = client.post("/requests/new/", fields(project, action="estimate", **wish))
    # Four GPUs for ten and a half hours at 3.60.
    for words in ("It can be booked now: 1 node (n1).", "151.20", "used or not"):
        assert words in said.content.decode()
    assert not QuotaRequest.objects.exists() and not Booking.objects.exists()
    for wrong, words in (
        ({"pool": ""}, "Say in which pool"),
        ({"amount": "5"}, "go evenly"),
        ({"until_hour": "07:00"}, "must end after"),
        ({"until_hour": "soon"}, "valid time"),
    ):
        for action in ("estimate", "submit"):
            page = client.post("/requests/new/", fields(project, action=action, **wish | wrong))
            assert words in page.content.decode(), (wrong, action)
    client.post("/requests/new/", fields(project, **wish))
    here = f"/requests/{QuotaRequest.objects.get().pk}/"
    client.force_login(lead)
    client.post(f"{here}whatif/")
    page = client.get(here).content.decode()
    assert "Booked in default then, of 4 GPUs" in page
    said = {"version": 3, "outcome": "less", "valid_until": day, "until_hour": "12:00"}
    version = QuotaRequest.objects.get().version
    assert client.post(f"{here}decide/", {**said, "version": version}).status_code == 302
    booking = Booking.objects.get()
    assert timezone.localtime(booking.until_at).hour == 12
    page = client.get(here).content.decode()
    assert f"booking {booking.pk}</a>: 1 node, planned" in page and "End it now" in page
    client.post(f"{here}revoke/", {"version": QuotaRequest.objects.get().version})
    assert "given back; jobs inside are stopped" in client.get(here).content.decode()


def test_looking_changes_nothing(client, asked, lead):
    client.force_login(lead)
    before = (QuotaRequest.objects.values().get(), RequestEvent.objects.count())
    for address in (f"/requests/{asked.pk}/", "/approvals/", f"/requests/{asked.pk}/decide/"):
        client.get(address, {"outcome": "approve", "version": asked.version})
    assert before == (QuotaRequest.objects.values().get(), RequestEvent.objects.count())


def test_the_inbox_and_its_count(client, asked, alice, lead, bob):
    client.force_login(lead)
    page = client.get("/approvals/").content.decode()
    assert f"REQ-{asked.pk}" in page
    assert '<span class="n hot">1' in page
    client.force_login(bob)
    page = client.get("/approvals/").content.decode()
    assert "Nothing waits for you" in page
    assert 'class="n hot"' not in page


def test_handing_it_on_by_the_page(client, asked, root, alice, lead, team):
    factories.member("other", team, Role.LEAD, by=root)
    client.force_login(lead)
    here = f"/requests/{asked.pk}/"
    assert '<option value="other">' in client.get(here).content.decode()
    sent = {"version": asked.version, "to": "other"}
    said = client.post(f"{here}assign/", sent, follow=True).content.decode()
    assert "is assigned to Other" in said
    assert 'assigned to <bdi class="name">Other' in client.get("/approvals/").content.decode()
    assert "Nothing is assigned to you" in client.get("/approvals/?assigned=me").content.decode()
    wrong = client.post(f"{here}assign/", {**sent, "to": "alice"}).content.decode()
    assert "nobody who may decide" in wrong
    client.force_login(User.objects.get(username="other"))
    page = client.get("/approvals/?assigned=me").content.decode()
    assert f"REQ-{asked.pk}" in page and "assigned to you" in page
    # Who asked sees whom it waits for, and chooses nobody.
    client.force_login(alice)
    page = client.get(here).content.decode()
    assert 'assigned to <bdi class="name">Other' in page and "Who takes it" not in page


def test_deciding_on_the_page_and_being_late(client, asked, root, lead):
    client.force_login(lead)
    here = f"/requests/{asked.pk}/"
    page = client.get(here).content.decode()
    assert "Your decision" in page
    wrong = client.post(f"{here}decide/", {"version": asked.version, "outcome": "deny"})
    assert "Choose why" in wrong.content.decode() and "no_capacity," not in wrong.content.decode()
    wrong = client.post(f"{here}decide/", {"version": asked.version, "outcome": "less"})
    assert "Write how many" in wrong.content.decode()
    said = {"version": asked.version, "outcome": "approve"}
    assert client.post(f"{here}decide/", said).status_code == 302
    client.force_login(root)
    late = client.post(f"{here}decide/", {**said, "outcome": "deny", "reason_code": "no_budget"})
    assert late.status_code == 409
    assert "Lead was faster" in late.content.decode()
    asked.refresh_from_db()
    done = client.post(f"{here}decide/", {"version": asked.version, "outcome": "approve"})
    assert done.status_code == 302
    assert Grant.objects.get().guaranteed == 2
    assert "Granted" in client.get(here).content.decode()


def test_versions_are_shown_as_a_difference(client, asked, alice):
    now = timezone.now()
    revise_request(
        actor=alice,
        request_id=asked.pk,
        version=asked.version,
        amount=3,
        valid_from=now,
        valid_until=now + timedelta(days=3),
        justification="<script>alert(1)</script> a shorter time will do",
        now=now,
    )
    client.force_login(alice)
    page = client.get(f"/requests/{asked.pk}/").content.decode()
    assert "How many: +2" in page
    assert "How many: +3" in page
    assert "<script>alert" not in page


def test_the_what_if_is_on_the_page(client, asked, lead):
    client.force_login(lead)
    assert client.post(f"/requests/{asked.pk}/whatif/").status_code == 302
    page = client.get(f"/requests/{asked.pk}/").content.decode()
    assert "no history to replay" in page
    assert "Oversubscribed by" in page


def test_the_inbox_asks_the_database_as_often_for_ten_as_for_one(
    client, cluster, root, lead, project, team, django_assert_max_num_queries
):
    client.force_login(lead)
    counts = []
    for number in range(2):
        for more in range(1 + 6 * number):
            person = factories.member(f"p{number}{more}", team, by=root)
            requesting.ask(person, project, now=timezone.now())
        with django_assert_max_num_queries(24) as captured:
            assert client.get("/approvals/").status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_small_asks_are_approved_together_and_large_ones_one_by_one(
    client, cluster, root, alice, lead, team, project
):
    set_quota(actor=root, owner=team, guaranteed=4)
    now = timezone.now()
    small = [requesting.ask(alice, project, now=now, amount=2, kind="guaranteed")]
    small.append(requesting.ask(alice, project, now=now, amount=1, pool=cluster.pool))
    client.force_login(lead)
    page = client.get("/approvals/").content.decode()
    # The second has two steps: a pool's guarantee is not the lead's to give.
    assert page.count('type="checkbox"') == 1
    assert "not simulated" in page
    row = ask_whatif(actor=lead, request=small[0], now=now)
    teams = [{"name": "vision", "is_news": True, "p90_s": [10, 500], "p50_s": [1, 2], "jobs": 9}]
    WhatIf.objects.filter(pk=row.pk).update(progress="done", answer={"teams": teams})
    assert "1 team waits longer" in client.get("/approvals/").content.decode()
    marks = [f"{one.pk}.{one.version}" for one in small]
    page = client.post("/approvals/approve/", {"request": marks}, follow=True).content.decode()
    assert "1 approved." in page
    assert "not a small one" in page
    states = [QuotaRequest.objects.get(pk=one.pk).state for one in small]
    assert states == ["approved", "lead_review"]
    again = client.post("/approvals/approve/", {"request": marks[:1]}, follow=True)
    assert "1 approved." not in again.content.decode()
    assert Grant.objects.count() == 1
    client.force_login(alice)
    assert (
        "Mark at least one"
        in client.post(
            "/approvals/approve/", {"request": ["x", "1.x"]}, follow=True
        ).content.decode()
    )


def test_the_inbox_shows_what_is_on_the_table(client, cluster, root, alice, lead, team, project):
    """A lead made one GPU of five: that is what the next step agrees to, and it is a small ask."""
    set_quota(actor=root, owner=team, guaranteed=4)
    now = timezone.now()
    wish = {"amount": 5, "pool": cluster.pool, "now": now}
    asked = requesting.ask(alice, project, **wish)
    row = ask_whatif(actor=lead, request=asked, now=now)
    teams = [{"name": "vision", "is_news": True, "p90_s": [10, 500], "p50_s": [1, 2], "jobs": 9}]
    WhatIf.objects.filter(pk=row.pk).update(progress="done", answer={"teams": teams})
    assert asked.route == ["lead", "admin"]
    requesting.decide(lead, asked, "less", amount=1, now=now)
    client.force_login(root)
    page = client.get("/approvals/").content.decode()
    assert '+1 <span class="muted">of +5</span>' in page
    # What five would do was simulated, and what one would do was not.
    assert "not simulated" in page
    asked.refresh_from_db()
    assert f'value="{asked.pk}.{asked.version}"' in page

"""The page that asks why, where somebody ends, holds, pauses or releases another's job."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Job
from scheduler.services.bookings import plan_booking
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.sharing.limits import set_quota
from tests import requesting, scenes
from tests.pages.raw_words import raw_words
from tests.pages.yard import build_yard
from tests.scenes import submit

pytestmark = pytest.mark.django_db
WHY = "makes <b>room</b> for the deadline"
FIELD = 'name="reason"'


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def text(answer) -> str:
    return answer.content.decode()


def state_of(job) -> str:
    return Job.objects.get(pk=job.pk).state


def hidden(page: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page):
        if name != "csrfmiddlewaretoken":
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize(
    ("act", "verb", "then"),
    [("cancel", "Cancel", "cancelled"), ("hold", "Hold", "held"), ("pause", "Pause", "held")],
)
def test_it_is_asked_for_once_and_kept(client, yard, lead, act, verb, then):
    client.force_login(lead)
    job, url = yard.queued, reverse(f"jobs:{act}", args=[yard.queued.pk])
    asks = client.post(url)
    page = text(asks)
    assert asks.status_code == 200 and f"{verb} job #{job.pk}: why?" in page
    assert 'role="alert"' not in page and raw_words(page) == []
    assert state_of(job) == "queued"
    wrong = client.post(url, {"reason": "x" * 201})
    assert wrong.status_code == 422 and 'role="alert"' in text(wrong) and "x" * 201 in text(wrong)
    assert client.post(url, {"reason": " "}).status_code == 422
    done = client.post(url, {"reason": WHY})
    assert (done.status_code, done.url) == (302, reverse("jobs:detail", args=[job.pk]))
    assert state_of(job) == then
    shown = text(client.get(done.url))
    assert "makes <b>room" not in shown and WHY in unescape(shown)
    assert WHY in unescape(text(client.get(reverse("jobs:events", args=[job.pk]))))


def test_ones_own_go_with_one_press(client, yard, alice):
    client.force_login(alice)
    assert FIELD not in text(client.get(reverse("jobs:detail", args=[yard.queued.pk])))
    assert client.post(reverse("jobs:hold", args=[yard.queued.pk])).status_code == 302
    assert client.post(reverse("jobs:cancel", args=[yard.queued.pk])).status_code == 302
    assert state_of(yard.queued) == "cancelled"


def test_the_menu_of_anothers_job_has_the_field(client, yard, lead):
    client.force_login(lead)
    page = text(client.get(reverse("jobs:detail", args=[yard.queued.pk])))
    assert page.count(FIELD) == 1 and 'for="reason-cancel"' in page
    pause = text(client.get(reverse("jobs:change", args=[yard.running.pk]), {"pause": "1"}))
    assert 'id="reason-pause"' in pause


def test_what_its_owner_holds_is_released_with_a_word(client, yard, alice, lead):
    hold_job(actor=alice, job=yard.queued)
    client.force_login(lead)
    url = reverse("jobs:release", args=[yard.queued.pk])
    assert "Release job" in text(client.post(url)) and state_of(yard.queued) == "held"
    client.post(url, {"reason": "its turn"})
    assert state_of(yard.queued) == "queued"


def test_strangers_are_not_asked(client, yard, carol, bob):
    for one, status in ((carol, 404), (bob, 403)):
        client.force_login(one)
        url = reverse("jobs:cancel", args=[yard.queued.pk])
        assert client.post(url, {"reason": "x"}).status_code == status
        assert client.post(url).status_code == status


def test_an_array(client, root, alice, lead, project):
    scenes.build_cluster(root)
    array = submit(alice, project, array="0-3").job_set
    client.force_login(lead)
    assert FIELD in text(client.get(reverse("sets:detail", args=[array.pk])))
    url = reverse("sets:cancel", args=[array.pk])
    assert f"Cancel array {array.pk}: why?" in text(client.post(url))
    assert "4 tasks are cancelled" in text(client.post(url, {"reason": WHY}, follow=True))
    client.force_login(alice)
    own = submit(alice, project, array="0-3").job_set
    assert FIELD not in text(client.get(reverse("sets:detail", args=[own.pk])))


def test_marked_jobs_keep_their_marks(client, root, alice, lead, project):
    scenes.build_cluster(root)
    jobs = [str(submit(one, project).pk) for one in (alice, alice, lead)]
    client.force_login(lead)
    url = reverse("jobs:marked")
    asks = text(client.post(url, {"act": "hold", "job": jobs, "query": "q=x"}))
    assert "Hold 3 jobs: why?" in asks
    kept = hidden(asks)
    assert (kept["job"], kept["act"], kept["query"]) == (jobs, ["hold"], ["q=x"])
    assert "3 jobs held" in text(client.post(url, {**kept, "reason": WHY}, follow=True))
    # One's own need none, and the others are held by oneself.
    assert client.post(url, {"act": "release", "job": jobs}).status_code == 302
    assert set(project.jobs.values_list("state", flat=True)) == {"queued"}


def test_above_ten_number_and_word_stand_on_one_page(client, root, alice, lead, project):
    scenes.build_cluster(root)
    sent = {"act": "cancel", "job": [submit(alice, project).pk for _ in range(11)]}
    client.force_login(lead)
    url = reverse("jobs:marked")
    assert FIELD in text(client.post(url, sent))
    assert "5" in text(client.post(url, {**sent, "typed": "5", "reason": WHY}))
    client.post(url, {**sent, "typed": "11", "reason": WHY})
    assert set(project.jobs.values_list("state", flat=True)) == {"cancelled"}
    client.force_login(alice)
    own = {"act": "cancel", "job": [submit(alice, project).pk for _ in range(11)]}
    assert FIELD not in text(client.post(url, own))


def test_a_booking_is_given_back_with_a_word(client, root, alice, lead, project):
    cluster, now = scenes.build_cluster(root), timezone.now()
    times = {"from_at": now + timedelta(hours=1), "until_at": now + timedelta(hours=9)}
    booking = plan_booking(actor=lead, owner=project, pool=cluster.pool, nodes=1, **times)
    submit(alice, project, booking=str(booking.pk), now=now)
    client.force_login(lead)
    url = reverse("bookings:cancel", args=[booking.pk])
    asks = text(client.post(url, {"version": "1"}))
    assert f"Give back booking {booking.pk}: why?" in asks
    done = client.post(url, {**hidden(asks), "reason": WHY}, follow=True)
    assert "is given back" in text(done)


def test_a_request_whose_booking_has_jobs_of_others_ends_with_a_word(
    client, root, alice, lead, team, project
):
    cluster, now = scenes.build_cluster(root, gpus=4), timezone.now()
    set_quota(actor=root, owner=team, guaranteed=4, maximum=4)
    hours = (now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=h) for h in (2, 6))
    wish = dict(zip(("valid_from", "valid_until"), hours, strict=True))
    wish |= {"kind": "reservation", "pool": cluster.pool, "amount": 4}
    asked = requesting.ask(alice, project, now=now, **wish)
    done = requesting.decide(lead, asked, now=now)
    submit(alice, project, booking=str(done.booking_id), now=now)
    client.force_login(lead)
    here = reverse("requests:detail", args=[done.pk])
    url, seen = reverse("requests:revoke", args=[done.pk]), {"version": str(done.version)}
    asks = client.post(url, seen)
    assert (asks.status_code, "End it now: why?" in text(asks)) == (200, True)
    assert hidden(text(asks))["version"] == [seen["version"]] and f'href="{here}"' in text(asks)
    assert client.post(url, {**seen, "reason": "a\tb"}).status_code == 422
    done.booking.refresh_from_db()
    assert done.booking.closed_as == ""
    page = text(client.post(url, {**seen, "reason": "new disks"}, follow=True))
    assert "is given back; jobs inside are stopped." in page
    assert "Its booking is given back; jobs inside are stopped. Reason: new disks" in page
    done.booking.refresh_from_db()
    assert done.booking.cut_short["because"] == "new disks"


def test_a_clone_offers_to_replace_ones_own_job_alone(client, yard, alice, lead):
    offer = f"Cancel job #{yard.queued.pk} as soon as"
    for one, is_offered in ((alice, True), (lead, False)):
        client.force_login(one)
        page = text(client.get(reverse("jobs:submit"), {"clone": yard.queued.pk}))
        assert (offer in page) is is_offered


def test_an_event_names_once_who_it_was(client, yard, lead):
    client.force_login(lead)
    client.post(reverse("jobs:cancel", args=[yard.running.pk]), {"reason": "the deadline"})
    page = text(client.get(reverse("jobs:detail", args=[yard.running.pk])))
    event = page.split("Asked to stop", 1)[1].split("</li>", 1)[0]
    assert event.count(lead.get_full_name()) == 1 and "the deadline" in event

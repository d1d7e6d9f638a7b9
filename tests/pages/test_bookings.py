"""The page of bookings: what each may see, book and give back there."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Booking, Device, Job, MaintenanceWindow
from tests.pages.yard import book_soon, build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def form(project, **more):
    begin = timezone.now() + timedelta(hours=3)
    until = begin + timedelta(hours=1)
    return {
        "owner": project.path,
        "pool": "default",
        "nodes": "1",
        "from_at": f"{begin:%Y-%m-%dT%H:%M}",
        "until_at": f"{until:%Y-%m-%dT%H:%M}",
        **more,
    }


def test_a_lead_books_sees_it_and_gives_it_back(client, lead, project, yard):
    client.force_login(lead)
    url = reverse("bookings:list")
    assert "Nothing is booked." in client.get(url).content.decode()
    said = client.post(url, form(project, note="new <b>model</b>"), follow=True).content.decode()
    booking = Booking.objects.get()
    assert f"Booking {booking.pk} is planned" in said
    assert "new &lt;b&gt;model&lt;/b&gt;" in said
    assert "<b>model" not in said
    cancel = reverse("bookings:cancel", args=[booking.pk])
    stale = client.post(cancel, {"version": "7"}, follow=True).content.decode()
    assert "has changed since you read it" in stale
    assert "is given back" in client.post(cancel, {"version": "1"}, follow=True).content.decode()


def test_a_clash_is_said_in_the_form(client, lead, project, yard):
    book_soon(lead, project, yard.cluster.pool, nodes=2)
    client.force_login(lead)
    begin = timezone.now() + timedelta(hours=1)
    page = client.post(
        reverse("bookings:list"), form(project, from_at=f"{begin:%Y-%m-%dT%H:%M}")
    ).content.decode()
    assert "In the way: booking" in page
    assert Booking.objects.count() == 1


def test_others_see_that_something_is_booked_and_not_by_whom(
    client, lead, carol, project, yard, django_assert_max_num_queries
):
    for _ in range(2):
        book_soon(lead, project, yard.cluster.pool, note="secret plan")
    client.force_login(carol)
    with django_assert_max_num_queries(25):
        page = client.get(reverse("bookings:list")).content.decode()
    assert "others" in page
    assert "secret plan" not in page
    assert project.path not in page
    assert "Book nodes" not in page


def test_the_week_shows_what_meets_a_booking(client, lead, carol, project, yard):
    Job.objects.filter(pk=yard.running.pk).update(time_limit_s=86400)
    book_soon(lead, project, yard.cluster.pool, nodes=2)
    begin = timezone.now() + timedelta(hours=2)
    MaintenanceWindow.objects.create(
        pool=yard.cluster.pool, from_at=begin, until_at=begin + timedelta(hours=3), reason="fans"
    )
    client.force_login(lead)
    url = reverse("bookings:list")
    page = client.get(url, {"week": f"{begin - timedelta(hours=1):%Y-%m-%d}"})
    met = {(clash.node, clash.other.kind) for clash in page.context["clashes"]}
    assert met == {("n1", "running"), ("n1", "maintenance"), ("n2", "maintenance")}
    assert "fans" in page.content.decode() and 'class="gantt"' in page.content.decode()
    client.force_login(carol)
    foreign = client.get(url, {"week": f"{begin - timedelta(hours=1):%Y-%m-%d}"}).content.decode()
    assert "a job of another team" in foreign and project.path not in foreign
    for wrong in ("noon", "0001-01-01", "2026-13-01"):
        assert "week: " in client.get(url, {"week": wrong}).content.decode()


def test_who_leaves_room_for_a_part_of_a_node_is_not_in_its_way(client, lead, project, yard):
    """One of two GPUs is held: one is left for the booking; two are not, nor is the whole node."""
    Job.objects.filter(pk=yard.running.pk).update(time_limit_s=86400)
    booking = book_soon(lead, project, yard.cluster.pool, nodes=2, gpus_per_node=1)
    node = yard.cluster.node(1)
    client.force_login(lead)
    week = {"week": f"{booking.from_at:%Y-%m-%d}"}

    def met():
        return [
            clash.node for clash in client.get(reverse("bookings:list"), week).context["clashes"]
        ]

    assert node.pk in booking.node_ids and met() == []
    for gpus in (2, 0):
        Booking.objects.update(gpus_per_node=gpus)
        assert met() == [node.name]
    Booking.objects.update(gpus_per_node=1)
    Device.objects.filter(node=node, index=1).update(model="another")
    assert met() == [node.name], "nobody knows which of them the job holds then"


def test_a_check_books_nothing_and_says_who_may_still_be_there(client, lead, project, yard):
    Job.objects.filter(pk=yard.running.pk).update(time_limit_s=86400)
    client.force_login(lead)
    url = reverse("bookings:list")
    page = client.post(url, form(project, nodes="2", check="1")).content.decode()
    assert "It can be booked:" in page and "n1, n2" in page
    assert f"/jobs/{yard.running.pk}/" in page and "may hold 1 GPU until" in page
    assert not Booking.objects.exists()
    clash = client.post(url, form(project, nodes="9", check="1")).content.decode()
    assert "book fewer" in clash and "It can be booked" not in clash


def test_an_operator_plans_maintenance_and_calls_it_off(client, operator, yard):
    client.force_login(operator)
    begin = timezone.now() + timedelta(hours=3)
    asked = {
        "window-pool": "default",
        "window-nodes": "n1, n9",
        "window-from_at": f"{begin:%Y-%m-%dT%H:%M}",
        "window-until_at": f"{begin + timedelta(hours=2):%Y-%m-%dT%H:%M}",
        "window-reason": "firmware",
    }
    here = reverse("bookings:window")
    refused = client.post(here, asked).content.decode()
    assert "has no node n9" in refused
    # From there, too, what follows leads to the page itself.
    lead_to = re.findall(r'(?:action|href)="(/bookings/[^"]*)"', refused)
    assert {"/bookings/", here} <= set(lead_to) and "/bookings/?week=" in "".join(lead_to)
    assert 'href="?' not in refused and '<form method="post" class' not in refused
    said = client.post(here, {**asked, "window-nodes": "n1"}, follow=True).content.decode()
    window = MaintenanceWindow.objects.get()
    assert f"Maintenance {window.pk} is planned" in said and "firmware" in said
    client.post(reverse("bookings:window_cancel", args=[window.pk]))
    assert MaintenanceWindow.objects.get().cancelled_at is not None

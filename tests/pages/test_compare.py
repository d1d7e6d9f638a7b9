"""Jobs side by side: differences marked, nothing of a foreign job, secrets masked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.pages.sets.compare import OFFERED
from scheduler.models import DeviceSample
from scheduler.models.telemetry import UNKNOWN_USE
from tests import scenes
from tests.pages.yard import add_samples, build_yard

pytestmark = pytest.mark.django_db
PAGE = "jobs:compare"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def lines(page) -> dict[str, tuple[str, ...]]:
    return {line.title: line.values for line in page.context["lines"]}


def test_results_and_specs_stand_beside_each_other(client, alice, yard):
    client.force_login(alice)
    pair = f"{yard.succeeded.pk},{yard.failed.pk}"
    page = client.get(reverse(PAGE), {"id": pair})
    found = lines(page)
    assert found["Exit code"] == ("0", "3")
    assert found["Name"] == ("done", "broken")
    assert 'class="differs"' in page.content.decode()
    only = lines(client.get(reverse(PAGE), {"id": pair, "rows": "differing"}))
    assert "Name" in only and all(len(set(values)) == 2 for values in only.values())
    # Who has not started has waited all the same.
    waits = client.get(reverse(PAGE), {"id": f"{yard.queued.pk},{yard.failed.pk}"})
    assert "–" not in lines(waits)["Waited"]


def test_a_default_is_said_where_another_job_says_more(client, alice, project, yard):
    more = scenes.submit(alice, project, nodes=2, env={"LAST_STEP": "7"})
    client.force_login(alice)
    found = lines(client.get(reverse(PAGE), {"id": f"{yard.queued.pk},{more.pk}"}))
    assert found["Nodes"] == ("1", "2")
    assert found["env.LAST_STEP"] == ("–", "7"), "names of variables stay as they are"
    assert "Time limit" in found and "time_limit" not in found


def test_marked_jobs_are_compared_with_one_press(client, alice, yard):
    client.force_login(alice)
    marked = {"act": "compare", "job": [yard.succeeded.pk, yard.running.pk]}
    page = client.post(reverse("jobs:marked"), marked, follow=True)
    assert [row.job for row in page.context["rows"]] == [yard.succeeded, yard.running]
    nothing = client.post(reverse("jobs:marked"), {"act": "compare"}, follow=True)
    assert "Mark 1 to" in nothing.content.decode()
    many = {"act": "compare", "job": list(range(1, 12))}
    assert (
        "at most 8 jobs" in client.post(reverse("jobs:marked"), many, follow=True).content.decode()
    )


def test_what_their_gpus_did_lies_over_the_time_since_each_began(
    client, alice, carol, project, yard
):
    """Each began at another time of day; the lines begin together."""
    now = timezone.now()
    other = scenes.submit(alice, project, name="a <b>&", now=now - timedelta(hours=2))
    unused = scenes.add_node(yard.cluster, "n3", 2)
    attempt = scenes.start(other, unused, now=now - timedelta(hours=2))
    add_samples(attempt, now - timedelta(hours=1))
    client.force_login(alice)
    page = client.get(reverse(PAGE), {"id": f"{yard.running.pk},{other.pk},{yard.queued.pk}"})
    use, memory, *_ = page.context["charts"]
    first, second = use.figure["data"]
    assert first["name"] == f"#{yard.running.pk} running"
    assert 6 < first["x"][0] < 9 and 58 < second["x"][0] < 61
    assert all(39 < y < 60 for y in first["y"] if y is not None)
    # The chart would take a tag for one, the table below it would not.
    assert second["name"] == f"#{other.pk} a &lt;b>&amp;"
    assert [row.name for row in memory.rows] == [first["name"], f"#{other.pk} a <b>&"]
    text = page.content.decode()
    assert "GPU use, on average: " in text and '<th scope="col">Job</th>' in text
    DeviceSample.objects.filter(attempt=attempt).update(gpu_percent=UNKNOWN_USE)
    page = client.get(reverse(PAGE), {"id": f"{other.pk}"})
    assert lines(page)["GPU use, mean"] == ("unknown",)
    assert page.context["charts"][0].summary == "GPU use: unknown."
    assert "% · unknown" in page.content.decode()
    client.force_login(carol)
    assert client.get(reverse(PAGE), {"id": str(other.pk)}).context["charts"] == []


def test_a_foreign_job_is_left_out_like_a_missing_one(client, carol, yard):
    client.force_login(carol)
    for number in (yard.succeeded.pk, 999_999):
        page = client.get(reverse(PAGE), {"id": str(number)})
        assert page.status_code == 200 and page.context["rows"] == []
        assert f"there is no job {number} for you" in page.content.decode()


def test_secrets_in_variables_are_shown_to_their_owner_alone(client, alice, bob, project, yard):
    job = scenes.submit(alice, project, name="keeps", env={"HF_TOKEN": "hf_abcdefgh12345678"})
    for viewer, knows in ((alice, True), (bob, False)):
        client.force_login(viewer)
        text = client.get(reverse(PAGE), {"id": str(job.pk)}).content.decode()
        assert ("hf_abcdefgh12345678" in text) is knows


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ("x,<b>y</b>", "no job number"),
        ("9" * 30, "no job number"),
        (",".join(map(str, range(1, 12))), "at most 8 jobs"),
        ("", "Nothing to compare yet"),
    ],
)
def test_wrong_numbers_are_said(client, alice, yard, ids, said):
    client.force_login(alice)
    page = client.get(reverse(PAGE), {"id": ids})
    assert page.status_code == 200
    assert said in page.content.decode() and "<b>y</b>" not in page.content.decode()


def test_eight_jobs_take_as_many_statements_as_two(
    client, alice, project, yard, django_assert_num_queries, django_assert_max_num_queries
):
    client.force_login(alice)
    with django_assert_max_num_queries(10) as few:
        client.get(reverse(PAGE), {"id": f"{yard.succeeded.pk},{yard.failed.pk}"})
    more = [scenes.submit(alice, project, name=f"n{n}").pk for n in range(6)]
    ids = [yard.succeeded.pk, yard.failed.pk, *more]
    with django_assert_num_queries(len(few)):
        client.get(reverse(PAGE), {"id": ",".join(map(str, ids))})


def test_what_could_stand_beside_the_only_one_is_offered(client, alice, carol, root, yard):
    client.force_login(alice)
    one = yard.succeeded
    page = client.get(reverse(PAGE), {"id": one.pk})
    offered = page.context["offered"]
    assert 0 < len(offered) <= OFFERED and one not in [job for job, _ in offered]
    assert {job.project_id for job, _ in offered} == {one.project_id}
    job, numbers = offered[0]
    assert f'href="?id={one.pk}%2C{job.pk}"' in page.content.decode()
    both = client.get(reverse(PAGE), {"id": numbers})
    assert [row.job.pk for row in both.context["rows"]] == [one.pk, job.pk]
    assert both.context["offered"] == []
    # Without any: one's own; who has none is offered none, least of all of others.
    mine = client.get(reverse(PAGE)).context["offered"]
    assert mine and {job.owner_id for job, _ in mine} == {alice.pk}
    client.force_login(carol)
    for asked in ({}, {"id": one.pk}):
        assert client.get(reverse(PAGE), asked).context["offered"] == []

"""A job's place in the line is the same number wherever it is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from portal.pages.job_rows import JobRow
from scheduler.models import Job
from scheduler.selectors.queues import places_of, position_in_queue, queue_rows
from scheduler.states import WaitReason
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db


def told(job: Job, ahead: int, reason: WaitReason = WaitReason.CAPACITY_BUSY) -> Job:
    job.wait_reason, job.wait_facts = reason, {"ahead": ahead, "need": "1 GPU"}
    job.save(update_fields=["wait_reason", "wait_facts"])
    return job


def test_what_the_last_look_found_goes_before_the_time(
    alice, project, cluster, django_assert_num_queries
):
    early, late, last, never = (submit(alice, project, now=at(n)) for n in range(4))
    assert [position_in_queue(job) for job in (early, late, last)] == [1, 2, 3]
    told(early, 1), told(late, 0), told(never, 0, WaitReason.INFEASIBLE_EVER)
    with django_assert_num_queries(1):
        places = places_of(early)
    assert places == {"position": 2, "place_in_team": 2}
    assert places_of(late) == {"position": 1, "place_in_team": 1}
    line = [row.job for row in queue_rows(alice, early.pool)]
    assert line[:2] == [late, early]
    for job in (early, late):
        place = line.index(job) + 1
        assert position_in_queue(job) == place == JobRow(job, False, None, None, "").position
    # Whoever cannot start at all has nobody ahead, and is not next in line.
    assert places_of(never)["position"] == 4


def test_of_more_than_are_shown_those_that_stand_first_are(alice, project, cluster):
    jobs = [submit(alice, project, now=at(n)) for n in range(5)]
    told(jobs[0], 0, WaitReason.QUOTA_HARD)
    for ahead, number in enumerate([4, 2, 1, 3]):
        told(jobs[number], ahead)
    rows = queue_rows(alice, jobs[0].pool, limit=3)
    assert [(row.position, row.job) for row in rows] == [(1, jobs[4]), (2, jobs[2]), (3, jobs[1])]
    assert len(queue_rows(alice, jobs[0].pool, limit=5)) == 5
    now = {jobs[number].pk: SimpleNamespace(place=number) for number in (3, 1)}
    rows = queue_rows(alice, jobs[0].pool, limit=1, places=now)
    assert [row.job for row in rows] == [jobs[1]]
    rows = queue_rows(alice, jobs[0].pool, limit=3, places=now)
    assert [row.job for row in rows] == [jobs[1], jobs[3], jobs[4]]


@pytest.mark.parametrize("reason", [WaitReason.QUOTA_HARD, WaitReason.NODES_UNHEALTHY])
def test_who_is_kept_back_is_not_first_for_having_nobody_ahead(alice, project, cluster, reason):
    early, late, kept = (submit(alice, project, now=at(n)) for n in range(3))
    told(early, 0), told(late, 1), told(kept, 0, reason)
    assert [places_of(job)["position"] for job in (early, late, kept)] == [1, 2, 3]
    assert places_of(late)["place_in_team"] == 2
    assert [row.job for row in queue_rows(alice, early.pool)][:3] == [early, late, kept]


def test_who_cannot_start_stands_behind_all_who_can_wherever_it_is_told(alice, project, cluster):
    """The first to come, and of a higher tier, they hold nobody's place."""
    never, early = submit(alice, project, now=at(0)), submit(alice, project, now=at(1))
    Job.objects.filter(pk=never.pk).update(tier=early.tier + 1)
    never.refresh_from_db()
    over, late = submit(alice, project, now=at(2)), submit(alice, project, now=at(3))
    told(never, 0, WaitReason.QUOTA_HARD), told(early, 0)
    told(over, 0, WaitReason.POOL_CLOSED), told(late, 1)
    right = [early, late, never, over]
    for limit in (500, 3):
        assert [row.job for row in queue_rows(alice, early.pool, limit=limit)] == right[:limit]
    standings = {job.pk: SimpleNamespace(place=n) for n, job in enumerate((early, late), start=1)}
    assert [row.job for row in queue_rows(alice, early.pool, places=standings)] == right
    assert [position_in_queue(job) for job in right] == [1, 2, 3, 4]
    assert [places_of(job) for job in right] == [
        {"position": place, "place_in_team": place} for place in (1, 2, 3, 4)
    ]


def test_who_cannot_start_is_not_said_to_be_next(client, alice, project, cluster):
    job = told(submit(alice, project, now=at(0)), 0)
    client.force_login(alice)
    assert "next in line" in client.get(f"/jobs/{job.pk}/").content.decode()
    told(job, 0, WaitReason.QUOTA_HARD)
    assert "next in line" not in client.get(f"/jobs/{job.pk}/").content.decode()

"""How many jobs of others one person ends alone, in one act and within an hour."""

from __future__ import annotations

import pytest

from scheduler.models import Job
from scheduler.services.bookings import (
    cancel_booking,
    edit_booking,
    end_booked_jobs,
    plan_booking,
)
from scheduler.services.changing.by_hand import pause_job
from scheduler.services.changing.many import Act, act_on_jobs
from scheduler.services.errors import Conflict
from scheduler.services.holding.alone import SecondNeeded, ended_lately
from scheduler.services.jobs import cancel_job
from scheduler.services.people.leaving import end_access
from scheduler.services.seconding.deciding import agree_to_cancel
from scheduler.services.seconding.proposing import propose_to_cancel_jobs
from scheduler.services.sets import cancel_set
from tests import scenes
from tests.factories import person
from tests.scenes import NOON, at, running, start, submit, sync
from tests.seconding import WHY, left, proposed

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, gpus=4)


@pytest.fixture
def array(cluster, alice, project):
    """One more task than one person ends alone."""
    return submit(alice, project, array="0-100").job_set


def test_marked_jobs_count_those_of_others_that_would_end(cluster, alice, lead, operator, project):
    jobs = [submit(alice, project) for _ in range(101)]
    mine = [submit(lead, project) for _ in range(3)]
    with pytest.raises(SecondNeeded):
        act_on_jobs(actor=lead, reason=WHY, jobs=jobs + mine, act=Act.CANCEL)
    assert not Job.objects.filter(state="cancelled").exists()
    assert len(act_on_jobs(actor=lead, reason=WHY, jobs=jobs, act=Act.HOLD).jobs) == 101
    found = propose_to_cancel_jobs(actor=lead, jobs=jobs + mine, reason=WHY)
    assert found.named == 104
    cancel_job(actor=alice, job=jobs.pop())
    jobs = list(Job.objects.filter(pk__in=[one.pk for one in jobs]).select_related("project"))
    assert len(act_on_jobs(actor=lead, reason=WHY, jobs=jobs + mine, act=Act.CANCEL).jobs) == 103


def test_small_pieces_within_an_hour_add_up(cluster, alice, lead, operator, project):
    pieces = [submit(alice, project, array="0-39").job_set for _ in range(3)]
    single = submit(alice, project)
    live = submit(alice, project)
    sync(cluster.node(1), running(start(live, cluster.node(1))))
    pause_job(actor=lead, reason=WHY, job=live, now=NOON)
    assert ended_lately(lead, now=at(1)) == 0
    cancel_job(actor=lead, reason=WHY, job=live, now=at(1))
    for number, piece in enumerate(pieces[:2]):
        cancel_set(actor=lead, reason=WHY, job_set=piece, now=at(10 * number))
    cancel_job(actor=lead, reason=WHY, job=single, now=at(20))
    assert ended_lately(lead, now=at(21)) == 82
    with pytest.raises(SecondNeeded) as refused:
        cancel_set(actor=lead, reason=WHY, job_set=pieces[2], now=at(30))
    assert refused.value.facts == {"jobs": 40, "ended_lately": 82, "alone_at_most": 100}
    assert ended_lately(alice, now=at(30)) == ended_lately(operator, now=at(30)) == 0
    # What two agreed to counts for neither of them.
    found = proposed(lead, pieces[2], now=at(31))
    agree_to_cancel(actor=operator, proposal=found, now=at(32))
    assert (ended_lately(lead, now=at(33)), ended_lately(operator, now=at(33))) == (82, 0)
    assert ended_lately(lead, now=at(3600 + 21)) == 0


def test_what_runs_and_was_agreed_to_counts_for_neither(cluster, alice, lead, operator, project):
    array = submit(alice, project, array="0-100").job_set
    attempts = [start(array.tasks.get(array_index=one), cluster.node(1)) for one in range(3)]
    sync(cluster.node(1), *map(running, attempts))
    agree_to_cancel(actor=operator, proposal=proposed(lead, array), now=at(1))
    assert array.tasks.filter(state="stopping").count() == 3
    assert ended_lately(operator, now=at(2)) == 0


def test_ones_own_that_were_agreed_to_give_no_leave_to_end_more(
    cluster, alice, root, operator, project
):
    own = submit(root, project, array="0-100").job_set
    attempts = [start(own.tasks.get(array_index=one), cluster.node(1)) for one in range(3)]
    sync(cluster.node(1), *map(running, attempts))
    agree_to_cancel(actor=root, proposal=proposed(operator, own), now=at(1))
    cancel_set(
        actor=root, reason=WHY, job_set=submit(alice, project, array="0-39").job_set, now=at(2)
    )
    assert ended_lately(root, now=at(3)) == 40


def test_the_hundred_and_first_single_job_needs_a_second_person(cluster, alice, lead, project):
    cancel_set(
        actor=lead, reason=WHY, job_set=submit(alice, project, array="0-99").job_set, now=NOON
    )
    job = submit(alice, project)
    with pytest.raises(SecondNeeded):
        cancel_job(actor=lead, reason=WHY, job=job, now=at(1))
    cancel_job(actor=lead, reason=WHY, job=submit(lead, project), now=at(1))
    found = propose_to_cancel_jobs(actor=lead, jobs=[job], reason=WHY, now=at(2))
    assert agree_to_cancel(actor=alice, proposal=found, now=at(3)).ended == 1


def test_somebody_leaves_at_once_and_their_many_jobs_wait_for_a_second_person(
    array, alice, root, operator
):
    went = end_access(actor=root, user=alice, reason="left", cancel_jobs=True, now=NOON)
    assert went.proposal is not None
    assert (went.cancelled, went.refused, went.proposal.reason) == (0, 0, "left")
    alice.refresh_from_db()
    assert (alice.is_active, left(array)) == (False, 101)
    assert agree_to_cancel(actor=operator, proposal=went.proposal, now=at(1)).ended == 101
    assert left(array) == 0


def test_where_nobody_could_agree_nobody_is_shut_out(array, alice, root):
    with pytest.raises(Conflict):
        end_access(actor=root, user=alice, reason="left", cancel_jobs=True, now=NOON)
    alice.refresh_from_db()
    assert alice.is_active
    second = person("second", is_superuser=True)
    done = end_access(actor=second, user=alice, reason="left", cancel_jobs=False, now=NOON)
    assert done.proposal is None


@pytest.fixture
def booking(cluster, lead, project):
    return plan_booking(
        actor=lead,
        owner=project,
        pool=cluster.pool,
        nodes=1,
        from_at=at(HOUR),
        until_at=at(9 * HOUR),
        now=NOON,
    )


def test_a_booking_with_many_jobs_of_others_is_not_given_back(booking, alice, lead, root, project):
    inside = submit(alice, project, array="0-100", booking=str(booking.pk)).job_set
    with pytest.raises(SecondNeeded) as refused:
        cancel_booking(actor=lead, booking=booking, now=at(1))
    assert refused.value.code == "second_person_needed"
    assert "Let two people cancel them first" in refused.value.detail
    agree_to_cancel(actor=root, proposal=proposed(lead, inside), now=at(2))
    assert cancel_booking(actor=lead, booking=booking, now=at(3)).closed_as == "cancelled"


def test_a_booking_given_back_counts_what_ended_before_and_is_counted(
    booking, alice, lead, project
):
    submit(alice, project, array="0-39", booking=str(booking.pk))
    submit(lead, project, booking=str(booking.pk))
    cancel_set(
        actor=lead, reason=WHY, job_set=submit(alice, project, array="0-69").job_set, now=at(1)
    )
    with pytest.raises(SecondNeeded) as refused:
        cancel_booking(actor=lead, booking=booking, now=at(2))
    assert refused.value.facts == {"jobs": 40, "ended_lately": 70, "alone_at_most": 100}
    booking.refresh_from_db()
    assert booking.closed_as == ""
    cancel_booking(actor=lead, booking=booking, reason=WHY, now=at(HOUR + 1))
    assert ended_lately(lead, now=at(HOUR + 2)) == 40
    with pytest.raises(SecondNeeded):
        cancel_set(
            actor=lead,
            reason=WHY,
            job_set=submit(alice, project, array="0-60").job_set,
            now=at(HOUR + 3),
        )
    # The scheduler ends them, and nobody is counted for them again.
    end_booked_jobs(now=at(HOUR + 4))
    assert ended_lately(lead, now=at(HOUR + 5)) == 40


def test_an_earlier_end_of_a_booking_counts_what_may_end_with_it(
    booking, cluster, alice, lead, project
):
    short = submit(alice, project, booking=str(booking.pk), time_limit="1h")
    sync(cluster.node(1), running(start(short, cluster.node(1), now=at(HOUR))), now=at(HOUR))
    inside = submit(alice, project, array="0-59", booking=str(booking.pk))

    def end_at(hours: float, now: float) -> None:
        until = {"until_at": at(hours * HOUR)}
        edit_booking(actor=lead, booking=booking, changes=until, reason=WHY, now=at(now))

    end_at(10, HOUR + 1)
    edit_booking(actor=lead, booking=booking, changes={"note": "exams"}, now=at(HOUR + 1))
    assert ended_lately(lead, now=at(HOUR + 2)) == 0
    # What runs is over by its limit; what waits may be late.
    end_at(8, HOUR + 3)
    assert ended_lately(lead, now=at(HOUR + 4)) == 60
    with pytest.raises(SecondNeeded) as refused:
        end_at(1.5, HOUR + 5)
    assert refused.value.facts == {"jobs": 61, "ended_lately": 60, "alone_at_most": 100}
    booking.refresh_from_db()
    assert booking.until_at == at(8 * HOUR)
    cancel_set(actor=alice, job_set=inside.job_set, now=at(HOUR + 6))
    end_at(1.5, HOUR + 7)
    assert ended_lately(lead, now=at(HOUR + 8)) == 61

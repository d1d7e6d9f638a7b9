"""The cycle by hand, and the page's answer on a terminal."""

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduler.models import Node, SchedulerLease
from scheduler.services.jobs import cancel_job
from scheduler.services.nodes import drain_node
from scheduler.states import JobState
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def fresh(cluster):
    """The nodes were heard of just now, by the real clock of the commands."""
    Node.objects.update(last_seen_at=timezone.now())
    return cluster


def test_one_cycle_by_hand_starts_what_fits_and_leaves_the_lease_free(
    fresh, alice, project, capsys
):
    job = submit(alice, project)
    call_command("run_scheduler", "--once")
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    assert "1 started, 0 waiting" in capsys.readouterr().out
    assert SchedulerLease.objects.get().holder == ""
    call_command("run_scheduler", "--once")


def test_by_hand_nothing_happens_while_another_schedules(fresh, alice, project):
    job = submit(alice, project)
    SchedulerLease.objects.update(holder="box:17", expires_at=at(10**8))
    with pytest.raises(CommandError, match="box:17 schedules now"):
        call_command("run_scheduler", "--once")
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_for_some_seconds_by_hand(fresh, alice, project, capsys):
    submit(alice, project)
    call_command("run_scheduler", "--seconds", "0.05")
    assert "1 started" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [(), ("--once", "--seconds", "1"), ("--seconds", "-1")])
def test_arguments_that_make_no_sense_are_refused(fresh, arguments):
    with pytest.raises(CommandError):
        call_command("run_scheduler", *arguments)


def test_explain_says_why_a_job_waits(fresh, alice, project, root, capsys):
    for node in fresh.nodes:
        drain_node(actor=root, node=node, now=at(1))
    job = submit(alice, project, nodes=2, gpus_per_node=2)
    call_command("run_scheduler", "--once")
    capsys.readouterr()
    call_command("explain_job", str(job.pk))
    out = capsys.readouterr().out
    assert f"Job {job.pk} train: queued" in out
    assert "2 of 2 nodes in pool default take no work now (2 dra" in out
    assert "start_p90_at = unknown" in out
    assert "project  vision/digits, by alice" in out


def test_explain_says_how_far_an_array_is_that_a_job_waits_for(fresh, alice, project, capsys):
    job_set = submit(alice, project, array="0-2").job_set
    cancel_job(actor=alice, job=job_set.tasks.get(array_index=1))
    waits = [f"{kind}:set={job_set.pk}" for kind in ("after", "afterany")]
    job = submit(alice, project, depends_on=waits)
    call_command("explain_job", str(job.pk))
    out = capsys.readouterr().out
    assert f"array {job_set.pk}: 1 of 3 tasks started" in out
    assert f"array {job_set.pk}: 1 of 3 tasks done" in out


def test_explain_says_how_a_job_ended(fresh, alice, project, capsys):
    job = submit(alice, project)
    cancel_job(actor=alice, job=job)
    call_command("explain_job", str(job.pk))
    out = capsys.readouterr().out
    assert "cancelled" in out and "lice" in out


def test_explain_refuses_a_number_that_is_no_job(db):
    with pytest.raises(CommandError, match="no job 4711"):
        call_command("explain_job", "4711")

"""After the database was put back, no job runs beside itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction

from accounts.models import AuditEvent
from scheduler.conf import load_conf
from scheduler.models import Attempt, Job, Node, OutputFile, Webhook
from scheduler.services import reaping
from scheduler.services.nodes import retire_node
from scheduler.services.nodes.left_behind import give_up_left_behind
from scheduler.services.nodes.recounting import begin_recount
from scheduler.states import AttemptState, EndReason, JobState, NodeState, WaitReason, wait_sentence
from tests.factories import told
from tests.scenes import at, ended, given_up_after, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def put_back(cluster, alice, project):
    """A job that waits in the database and was started on n1 since; the attempt it knows nothing
    of, as its node reports it."""
    heard(1, now=at(0))
    heard(2, now=at(0))
    job = submit(alice, project)
    with transaction.atomic():
        attempt = start(job, cluster.node(1))
        heard(1, running(attempt), now=at(1))
        transaction.set_rollback(True)
    return job, attempt


def heard(number, *reports, **said):
    """As a door hears it: the node as it is now."""
    return sync(Node.objects.get(name=f"n{number}"), *reports, **said)


def test_a_job_that_may_run_already_starts_only_when_its_old_attempt_has_ended(
    cluster, put_back, scheduler
):
    job, unknown = put_back
    assert begin_recount(now=at(2)) == 2
    told = AuditEvent.objects.get(action="node.recount")
    assert (told.actor_name, told.after) == ("", '{"nodes":2}')
    first = heard(1, running(unknown), now=at(3))
    assert first.assignments == () and first.revision > 1_000_000
    heard(2, seen_revision=heard(2, now=at(3)).revision, now=at(3))
    scheduler.run_cycle(at(4))
    job.refresh_from_db()
    assert (job.state, job.wait_reason) == (JobState.QUEUED, WaitReason.NODES_UNHEALTHY)
    assert "2 kept back until every node has said" in wait_sentence(job.wait_reason, job.wait_facts)
    heard(1, running(unknown), seen_revision=first.revision, now=at(5))
    scheduler.run_cycle(at(6))
    assert not Attempt.objects.exists()
    # Sent before it had heard what this database knows.
    heard(1, seen_revision=3, now=at(7))
    scheduler.run_cycle(at(8))
    assert not Attempt.objects.exists()
    heard(1, ended(unknown), seen_revision=first.revision, now=at(9))
    scheduler.run_cycle(at(10))
    again = Attempt.objects.get()
    assert again.job_id == job.pk and again.pk > unknown.pk + 900_000


def test_what_the_copy_knows_goes_on_and_counts(cluster, alice, project):
    attempt = start(submit(alice, project), cluster.node(1))
    heard(1, running(attempt), now=at(1))
    begin_recount(now=at(2))
    told = heard(1, running(attempt), now=at(3))
    assert [one.fence for one in told.assignments] == [attempt.pk]
    heard(1, running(attempt), seen_revision=told.revision, now=at(4))
    assert Node.objects.get(name="n1").counts_from is None
    assert Node.objects.get(name="n1").events.filter(kind="counted").count() == 1


def test_what_ended_after_the_copy_was_made_ends_although_its_node_has_forgotten_it(
    cluster, alice, project, scheduler
):
    attempt = start(submit(alice, project), cluster.node(1))
    heard(1, running(attempt), now=at(1))
    begin_recount(now=at(2))
    seen = heard(1, now=at(3)).revision
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.RUNNING
    assert heard(1, seen_revision=seen, now=at(4)).assignments == ()
    for number in (1, 2):
        seen = heard(number, now=at(4) + given_up_after()).revision
        heard(number, seen_revision=seen, now=at(5) + given_up_after())
    give_up_left_behind(now=at(5) + given_up_after())
    attempt.refresh_from_db()
    assert (attempt.state, attempt.end_reason) == (AttemptState.ENDED, EndReason.NODE_LOST)
    assert attempt.job.state == JobState.QUEUED


def test_lost_and_retired_nodes_are_not_waited_for(cluster, root, put_back, scheduler):
    job, _ = put_back
    begin_recount(now=at(2))
    retire_node(actor=root, node=cluster.node(2), now=at(3))
    late = at(3) + load_conf().lost_after
    reaping.mark_silent(now=late)
    later = late + load_conf().node_lease + timedelta(seconds=1)
    assert reaping.mark_lost(now=later) == 1
    heard(1, now=later)
    scheduler.run_cycle(later)
    assert Job.objects.get(pk=job.pk).state == JobState.STARTING


def test_a_node_that_was_lost_in_the_copy_may_come_back_and_is_waited_for_as_long(
    cluster, put_back, scheduler
):
    job, _ = put_back
    Node.objects.filter(name="n2").update(state=NodeState.LOST)
    begin_recount(now=at(2))
    seen = heard(1, now=at(3)).revision
    almost = at(1) + load_conf().lost_after
    heard(1, seen_revision=seen, now=almost)
    assert reaping.mark_lost(now=almost) == 0
    scheduler.run_cycle(almost)
    assert Job.objects.get(pk=job.pk).state == JobState.QUEUED
    late = at(3) + load_conf().lost_after
    heard(1, seen_revision=seen, now=late)
    assert reaping.mark_lost(now=late) == 1
    scheduler.run_cycle(late)
    assert Job.objects.get(pk=job.pk).state == JobState.STARTING


def test_numbers_rise_each_time_and_above_every_row(cluster, alice, project):
    first = start(submit(alice, project), cluster.node(1)).pk
    begin_recount(now=at(1))
    begin_recount(now=at(1))
    attempt = start(submit(alice, project), cluster.node(2))
    second = attempt.pk
    assert second > first + 2_000_000
    # As a hand or an import may have left it: a row above what the database would give next.
    attempt.pk, attempt.number, attempt.state = second + 5_000_000, 2, AttemptState.ENDED
    attempt.save(force_insert=True)
    begin_recount(now=at(2))
    assert start(submit(alice, project), cluster.node(2)).pk > second + 6_000_000


def test_what_nodes_stores_and_receivers_know_by_number_is_never_another(cluster, alice, project):
    def numbers():
        job = submit(alice, project)
        placement = start(job, cluster.node(len(given) + 1)).placements.get()
        kept = OutputFile.objects.create(
            job=job, placement=placement, rank=0, name="x", told_at=at(0)
        )
        return job.pk, kept.pk, told(hook, str(job.pk), at(0)).pk

    hook = Webhook.objects.create(
        url="https://x.example", sealed=b"", since=at(0), created_at=at(0)
    )
    given = []
    given.append(numbers())
    begin_recount(now=at(1))
    for old, new in zip(given[0], numbers(), strict=True):
        assert new > old + 1_000_000


def test_the_command_says_what_comes_next(cluster, capsys):
    call_command("restored")
    said = capsys.readouterr().out
    assert "Nothing starts before 2 nodes said what runs there" in said
    assert str(connection.settings_dict["NAME"]) in said


def test_the_command_refuses_a_database_without_nodes(db):
    """An SQLite file beside the checkout, say, while the servers' database is PostgreSQL."""
    with pytest.raises(CommandError, match=r"no node in .*deploy/manage\.sh"):
        call_command("restored")
    assert not AuditEvent.objects.filter(action="node.recount").exists()

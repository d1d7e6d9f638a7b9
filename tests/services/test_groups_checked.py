"""The nightly check of groups: silent where all went well, and each bend is found."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Job
from scheduler.services.invariants import check_invariants, groups
from scheduler.services.sets import rerun_failed
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
LATER = at(600)
WAITS: dict[str, Any] = {"state": "queued", "ended_at": None, "end_reason": "", "end_facts": {}}


@pytest.fixture
def house(root, alice, bob, project):
    """Of one group an array that is at work, one that gave way and the newest, which waits; of
    another an array whose failed task runs again beside a newer job. And somebody else's."""
    node = scenes.build_cluster(root, gpus=8).node(1)
    submit(bob, project, group="eval")
    many = submit(alice, project, name="many", group="eval", array="0-1")
    sync(node, running(start(many, node, now=at(1))), now=at(2))
    submit(alice, project, name="gone", group="eval", now=at(3))
    submit(alice, project, name="newest", group="eval", now=at(4))
    failed = submit(alice, project, group="night", array="0-1", now=at(5))
    attempt = start(failed, node, now=at(6))
    sync(node, running(attempt), now=at(7))
    sync(node, ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1), now=at(8))
    submit(alice, project, name="later", group="night", group_policy="beside", now=at(9))
    rerun_failed(actor=alice, job_set=failed.job_set, now=at(10))
    return node


def found(**asked):
    return {words.partition(":")[0] for words in check_invariants(now=LATER, **asked).breaks}


def test_a_sound_house_breaks_nothing_and_there_is_something_to_look_at(house):
    check = check_invariants(now=LATER)
    # Six members that have not ended, and one that gave way.
    assert (check.breaks, check.looked_at["I37"]) == ([], 6 + 1)


def waits_on(alice, project):
    Job.objects.filter(name="gone").update(**WAITS)


def a_task_waits_on(alice, project):
    first = submit(alice, project, name="tasks", group="third", array="0-2", now=at(20))
    submit(alice, project, group="third", now=at(21))
    Job.objects.filter(job_set=first.job_set, array_index=1).update(**WAITS)


def gave_way_to_another_group(alice, project):
    Job.objects.filter(name="newest").update(group_name="other")


def gave_way_to_an_older_one(alice, project):
    older = Job.objects.earliest("pk")
    facts = {"newer": f"job {older.pk}", "newer_job": older.pk, "group": "eval"}
    Job.objects.filter(pk=older.pk).update(owner=alice)
    Job.objects.filter(name="gone").update(end_facts=facts)


@pytest.mark.parametrize(
    "spoil",
    [waits_on, a_task_waits_on, gave_way_to_another_group, gave_way_to_an_older_one],
)
def test_what_was_not_kept_is_found(house, alice, project, spoil):
    spoil(alice, project)
    assert "I37" in found()


def test_of_ends_only_those_since_then_are_read(house, alice, project):
    gave_way_to_another_group(alice, project)
    assert found(since=at(3)) == {"I37"} and not found(since=at(30))


def test_many_cost_no_more_statements_than_two(house, alice, project):
    def statements():
        with CaptureQueriesContext(connection) as asked:
            list(groups.members_of_groups())
            list(groups.superseded(None))
        return len(asked)

    before = statements()
    for number in range(6):
        submit(alice, project, group=f"g{number}", array="0-1" if number % 2 else None)
        submit(alice, project, group=f"g{number}", now=at(1))
    assert statements() == before

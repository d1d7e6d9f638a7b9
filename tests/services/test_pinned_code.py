"""A job stays at the commit that it was begun with, and its ranks at one."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Attempt, Job, UsageEntry
from scheduler.services.changing.by_hand import pause_job
from scheduler.services.stopping import request_stop
from scheduler.states import EndReason, end_sentence
from tests import scenes
from tests.scenes import at, ended, running, start, sync

pytestmark = pytest.mark.django_db

GIT = {"git_url": "https://code.example/train.git", "git_ref": "main"}
FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


def submit(actor, project, **fields):
    return scenes.submit(actor, project, script="", command=["./train"], **fields)


def code_told(node):
    return sync(node).assignments[-1].launch.code


def preempted(attempt, node):
    attempt = Attempt.objects.select_related("job__pool").get(pk=attempt.pk)
    assert request_stop(attempt=attempt, reason=EndReason.PREEMPTED, now=at(20))
    sync(node, ended(attempt, reason=EndReason.PREEMPTED, exit_code=-15), now=at(21))
    return Job.objects.get(pk=attempt.job_id)


def test_a_job_goes_on_with_the_commit_it_was_begun_with(cluster, alice, project):
    node = cluster.node(1)
    attempt = start(submit(alice, project, code=GIT), node)
    code = code_told(node)
    assert (code.git_ref, code.git_named) == ("main", "")
    sync(node, running(attempt, code_commit=FIRST))

    job = preempted(attempt, node)
    second = start(job, node, now=at(30))
    code = code_told(node)
    assert (code.git_url, code.git_ref, code.git_named) == (GIT["git_url"], FIRST, "main")
    assert job.spec["code"]["git_ref"] == "main", "as it was asked for"

    # The second one ended before it told any: the third takes what is known.
    job = preempted(second, node)
    start(job, node, now=at(40))
    assert code_told(node).git_ref == FIRST


def test_what_told_no_commit_or_an_odd_one_pins_nothing(cluster, alice, project):
    node = cluster.node(1)
    attempt = start(submit(alice, project, code={"git_url": GIT["git_url"]}), node)
    sync(node, running(attempt, code_commit="--upload-pack=x"))
    start(preempted(attempt, node), node, now=at(30))
    code = code_told(node)
    assert (code.git_ref, code.git_named) == ("", "")


def test_a_commit_that_was_asked_for_and_code_without_git_ask_for_nothing_more(
    cluster, alice, project
):
    node = cluster.node(1)
    start(submit(alice, project, code={**GIT, "git_ref": SECOND}), node)
    start(submit(alice, project), node)
    with CaptureQueriesContext(connection) as seen:
        reply = sync(node)
    assert [one.launch.code.git_ref for one in reply.assignments] == [SECOND, ""]
    assert not [query for query in seen if "code_commit" in query["sql"]]


def test_the_head_of_no_name_is_named(cluster, alice, project):
    node = cluster.node(1)
    attempt = start(submit(alice, project, code={"git_url": GIT["git_url"]}), node)
    sync(node, running(attempt, code_commit=FIRST))
    start(preempted(attempt, node), node, now=at(30))
    code = code_told(node)
    assert (code.git_ref, code.git_named) == (FIRST, "HEAD")


def test_tasks_of_an_array_take_what_its_first_one_told(cluster, alice, project):
    node = cluster.node(1)
    submit(alice, project, array="0-2", code=GIT)
    one, two, three = Job.objects.order_by("array_index")
    attempt = start(one, node)
    sync(node, running(attempt, code_commit=FIRST))
    other = start(two, node)
    assert code_told(node).git_ref == FIRST
    sync(node, ended(attempt), ended(other), now=at(9))
    start(three, node)
    assert code_told(node).git_ref == FIRST


def test_a_rank_that_is_told_late_is_told_what_the_others_fetched(cluster, alice, project):
    attempt = start(submit(alice, project, nodes=2, code=GIT), *cluster.nodes)
    sync(cluster.node(1), running(attempt, master_port=29500, code_commit=FIRST))
    code = code_told(cluster.node(2))
    assert (code.git_ref, code.git_named) == (FIRST, "main")


@pytest.fixture
def gang(cluster, alice, project):
    """Both ranks were told the name, before either had fetched anything."""
    attempt = start(submit(alice, project, nodes=2, code=GIT, retries=1), *cluster.nodes)
    sync(cluster.node(1), running(attempt, master_port=29500))
    assert code_told(cluster.node(2)).git_ref == "main"
    return attempt


def test_ranks_with_different_commits_end_and_begin_again_with_one(cluster, gang):
    sync(cluster.node(1), running(gang, master_port=29500, code_commit=FIRST))
    sync(cluster.node(2), running(gang, 1, code_commit=SECOND), now=at(5))
    for node in cluster.nodes:
        # No agent knows the reason.
        assert sync(node).assignments[0].stop.reason == EndReason.PREEMPTED
    for rank, node in enumerate(cluster.nodes):
        sync(node, ended(gang, rank, reason=EndReason.PREEMPTED, exit_code=-15), now=at(60))

    gang.refresh_from_db()
    job = gang.job
    assert (gang.end_reason, gang.failure) == ("code_differs", "user_config")
    facts = {name: gang.end_facts[name] for name in ("rank", "node", "commit", "first")}
    assert facts == {"rank": 1, "node": "n2", "commit": SECOND, "first": FIRST}
    assert (job.state, job.user_retries_used, job.free_retries_used) == ("queued", 0, 1)
    assert "code_differs" not in job.events.values_list("kind", flat=True), "its end says so"
    words = f"commit {FIRST[:12]}, and rank 1 on node n2 {SECOND[:12]}. "
    assert words in end_sentence(gang.end_reason, gang.end_facts)
    assert sum(entry.cost for entry in UsageEntry.objects.filter(job=job)) == 0

    again = start(job, *cluster.nodes, now=at(70))
    assert code_told(cluster.node(1)).git_ref == FIRST
    sync(cluster.node(1), running(again, master_port=29500, code_commit=FIRST))
    sync(cluster.node(2), running(again, 1, code_commit=FIRST), now=at(75))
    job.refresh_from_db()
    assert job.state == "running"


def test_ranks_that_ended_well_with_different_commits_are_no_success(cluster, gang):
    sync(cluster.node(1), ended(gang, code_commit=FIRST), now=at(5))
    sync(cluster.node(2), ended(gang, 1, code_commit=SECOND), now=at(6))
    gang.refresh_from_db()
    assert (gang.end_reason, gang.job.state) == ("code_differs", "queued")


def test_what_a_person_wants_of_such_a_job_holds(cluster, gang, alice):
    sync(cluster.node(1), running(gang, code_commit=FIRST))
    sync(cluster.node(2), running(gang, 1, code_commit=SECOND), now=at(5))
    pause_job(actor=alice, job=gang.job, now=at(6))
    for rank, node in enumerate(cluster.nodes):
        sync(node, ended(gang, rank, reason=EndReason.PREEMPTED, exit_code=-15), now=at(60))
    gang.refresh_from_db()
    assert (gang.end_reason, gang.job.state) == ("paused_by_user", "held")


def test_folders_that_are_not_alike_are_said_once(cluster, alice, project):
    folder = {"folder": "/srv/train"}
    attempt = start(submit(alice, project, nodes=2, code=folder), *cluster.nodes)
    sync(cluster.node(1), running(attempt, master_port=29500, code_commit=FIRST))
    for _ in range(2):
        sync(cluster.node(2), running(attempt, 1, code_commit=SECOND), now=at(5))
    attempt.refresh_from_db()
    assert attempt.job.state == "running"
    [event] = attempt.job.events.filter(kind="code_differs")
    said = {"rank": 1, "node": "n2", "commit": SECOND, "first": FIRST}
    assert (event.detail, event.attempt_id) == (said, attempt.pk)


def test_who_fails_before_another_tells_its_code_is_told_of_it(cluster, gang):
    """The failure of the program stays its own; that the ranks differed is said."""
    exits = {"reason": EndReason.EXIT_CODE, "exit_code": 1, "code_commit": FIRST}
    sync(cluster.node(1), ended(gang, **exits), now=at(5))
    stopped = {"reason": EndReason.EXIT_CODE, "exit_code": -15, "code_commit": SECOND}
    sync(cluster.node(2), ended(gang, 1, **stopped), now=at(6))
    gang.refresh_from_db()
    assert gang.end_reason == "exit_code"
    [event] = gang.job.events.filter(kind="code_differs")
    assert (event.detail["commit"], event.detail["first"]) == (SECOND, FIRST)

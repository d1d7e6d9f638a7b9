"""Reports of one call or of many: the same rows; and how many statements a job costs."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduler.models import Allocation, DeviceSegment, Job, JobEvent, UsageEntry
from scheduler.services.gathering import Step, afterwards, gathering
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db

# How each job of the scene ends: well, by its own fault with a retry left, or by the node's.
ENDS = (
    {"reason": EndReason.COMPLETED},
    {"reason": EndReason.EXIT_CODE, "exit_code": 3},
    {"reason": EndReason.DEVICE_FAILED, "exit_code": None},
    {"reason": EndReason.COMPLETED},
)


def play(root, project, *, together: bool):
    """Four jobs run and end, a fifth waits for the first; every row they leave behind."""
    cluster = scenes.build_cluster(root, gpus=4)
    node = cluster.node(1)
    jobs = [submit(root, project, retries=1) for _ in ENDS]
    submit(root, project, depends_on=[f"afterok:{jobs[0].pk}"])
    attempts = [start(job, node, now=at(1)) for job in jobs]
    ups = [running(attempt) for attempt in attempts]
    downs = [ended(attempt, **how) for attempt, how in zip(attempts, ENDS, strict=True)]
    for reports, moment in ((ups, at(5)), (downs, at(65))):
        for calls in [reports] if together else [[one] for one in reports]:
            sync(node, *calls, now=moment)
    return {
        "jobs": list(
            Job.objects.order_by("pk").values_list("state", "version", "user_retries_used")
        ),
        "segments": sorted(
            DeviceSegment.objects.values_list(
                "device__index", "bucket", "start_s", "end_s", "cause"
            ),
            key=str,
        ),
        "usage": sorted(UsageEntry.objects.values_list("kind", "gpu_seconds", "cost"), key=str),
        "held": Allocation.objects.filter(released_at__isnull=True).count(),
        "events": sorted(JobEvent.objects.values_list("kind", "from_state", "to_state", "at")),
    }


def test_reports_of_one_call_leave_the_rows_of_many_calls(root, project):
    seen = {}
    for together in (False, True):
        with transaction.atomic():
            seen[together] = play(root, project, together=together)
            transaction.set_rollback(True)
    assert seen[True] == seen[False]
    assert seen[True]["held"] == 0
    assert [state for state, *_ in seen[True]["jobs"]][-1] == "queued"


def test_what_a_job_costs_in_statements(root, project):
    cluster = scenes.build_cluster(root, gpus=8)
    node = cluster.node(1)
    counts = {}
    for many in (1, 2, 8):  # the first also learns what of the node does not change
        attempts = [start(submit(root, project), node, now=at(1)) for _ in range(many)]
        with CaptureQueriesContext(
            connection,
        ) as ups:
            sync(node, *[running(one) for one in attempts], now=at(2))
        with CaptureQueriesContext(connection) as downs:
            sync(node, *[ended(one) for one in attempts], now=at(3))
        counts[many] = len(ups), len(downs)
    for few, more in zip(counts[2], counts[8], strict=True):
        # The attempt and the job are each a row of their own.
        assert more - few == 2 * 6


def test_work_is_done_in_order_once_and_not_after_an_error():
    done = []

    def settle(items):
        done.append(("settle", items))

    def follow(items):
        done.append(("follow", items))
        if "first" in items:
            afterwards(Step.RELEASE, release, ["late"])

    def release(items):
        done.append(("release", items))

    with gathering():
        afterwards(Step.SETTLE, settle, [1])
        afterwards(Step.FOLLOW, follow, ["first"])
        afterwards(Step.SETTLE, settle, [2])
        assert done == []
    assert done == [("follow", ["first"]), ("release", ["late"]), ("settle", [1, 2])]

    done.clear()
    with pytest.raises(ValueError, match="broken"), gathering():
        afterwards(Step.SETTLE, settle, [3])
        raise ValueError("broken")
    afterwards(Step.SETTLE, settle, [4])
    assert done == [("settle", [4])]

"""Triage as programs read it: the job, its why, its attempts."""

from __future__ import annotations

import pytest

from scheduler.states import EndReason
from tests import scenes
from tests.scenes import ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


def test_every_answer_about_a_failed_job_carries_the_same_triage(
    program, alice, finance, cluster, project
):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    log = b"step 1\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    scenes.write_log(cluster.node(1), attempt, log)
    end = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1, log_size=len(log))
    sync(cluster.node(1), end)
    caller = program(alice)
    detail = caller.get(f"/jobs/{job.pk}/").json()
    triage = detail["triage"]
    assert (triage["failure"], triage["is_confirmed"], triage["then"]) == ("infra_gpu", False, "")
    assert [one["line"] for one in triage["evidence"]] == [2]
    assert detail["end"]["failure"] == "user_code", "words of the program move no blame"
    assert caller.get(f"/jobs/{job.pk}/why/").json()["triage"] == triage
    assert caller.get(f"/jobs/{job.pk}/attempts/").json()["items"][0]["triage"] == triage
    assert program(finance).get(f"/jobs/{job.pk}/").json()["triage"]["evidence"] == []

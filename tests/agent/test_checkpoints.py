"""A real agent finds, confirms and reports what a real program saves, and resumes from it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import AttemptReport, Checkpoint, StopOrder
from tests.agent.conftest import Agent, assignment
from tests.agent.portal import Portal

SAVE = """
save() {
  cd "$TRAINYARD_CHECKPOINT_DIR"; printf "weights $1" > step-$1
  sum=$(sha256sum step-$1 | cut -d' ' -f1); size=$(stat -c %s step-$1)
  printf '{"path": "step-%s", "step": %s, "bytes": %s, "digest": "sha256:%s"}' \
    $1 $1 $size ${2:-$sum} > .note && mv .note checkpoint.json
}
echo "from [$TRAINYARD_RESUME_FROM]"
"""


def confirmed(portal: Portal, fence: int, step: int) -> AttemptReport:
    def there() -> AttemptReport | None:
        report = portal.nodes["alpha"].reports.get(fence)
        if report is None or report.checkpoint is None or report.checkpoint.step != step:
            return None
        return report

    found: AttemptReport = portal.wait(there, what=f"step {step} of attempt {fence}")
    return found


def test_a_running_programs_checkpoints_are_confirmed(portal: Portal, agent: Agent) -> None:
    order = assignment(SAVE + "save 10; sleep 300")
    portal.assign("alpha", order)
    report = confirmed(portal, order.fence, 10)
    kept = agent.state / "checkpoints" / str(order.job_id) / "step-10"
    assert report.state == AttemptState.RUNNING and report.checkpoint is not None
    assert (report.checkpoint.path, report.checkpoint.bytes) == (str(kept), 10)
    assert report.checkpoint.digest == hashlib.sha256(kept.read_bytes()).hexdigest()
    portal.unlist("alpha", order.fence)
    portal.ended("alpha", order.fence)


def test_a_checkpoint_saved_in_the_grace_comes_with_the_end(portal: Portal, agent: Agent) -> None:
    order = assignment(
        SAVE + "trap 'save 20; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    )
    portal.assign("alpha", order)
    portal.wait(lambda: b"ready" in portal.logs[order.fence, 0], what="ready")
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.PREEMPTED, 10))
    portal.ended("alpha", order.fence)

    def told() -> Any:
        history = [r for r in portal.nodes["alpha"].history if r.fence == order.fence]
        return history[-1] if history[-1].checkpoint and not history[-1].checkpoint_pending else 0

    last = portal.wait(told, what="the last checkpoint")
    assert last.end_reason == EndReason.PREEMPTED
    assert last.checkpoint.step == 20


def test_a_false_digest_is_told_and_the_last_good_one_stays(portal: Portal, agent: Agent) -> None:
    order = assignment(SAVE + f"save 1; sleep 1.5; save 2 {'0' * 64}; sleep 300")
    portal.assign("alpha", order)
    portal.wait(
        lambda: (
            portal.nodes["alpha"].reports[order.fence].checkpoint_problem
            if order.fence in portal.nodes["alpha"].reports
            else ""
        ),
        what="a problem",
    )
    report = portal.nodes["alpha"].reports[order.fence]
    assert "does not have the digest" in report.checkpoint_problem
    assert report.checkpoint is not None and report.checkpoint.step == 1
    portal.unlist("alpha", order.fence)
    portal.ended("alpha", order.fence)


def test_the_next_attempt_goes_on_and_does_not_tell_the_old_one_as_its_own(
    portal: Portal, agent: Agent
) -> None:
    first = assignment(SAVE + "save 7")
    portal.outcome("alpha", first)
    second = assignment(SAVE, job_id=first.job_id, attempt_number=2)
    report, log = portal.outcome("alpha", second)
    kept = agent.state / "checkpoints" / str(first.job_id) / "step-7"
    assert log == f"from [{kept}]\n"
    assert (report.resumed_from, report.resumed_step) == (str(kept), 7)
    assert report.checkpoint is None and report.checkpoint_problem == ""


def test_an_offer_that_is_not_here_starts_anew_and_says_so(
    portal: Portal, agent: Agent, folder: Path
) -> None:
    shared = folder / "not-shared"
    shared.mkdir()
    shared.chmod(0o1777)
    offer = Checkpoint(f"{shared}/step-9", 9, 9, "0" * 64)
    order = assignment(SAVE, checkpoint_dir=str(shared), resume=offer)
    report, log = portal.outcome("alpha", order)
    assert log == "from []\n"
    assert (report.resumed_from, report.resumed_step) == ("", None)
    assert "step 9 is of no use here" in report.resume_problem


def test_a_restarted_agent_finds_the_checkpoint_again(portal: Portal, agents: Any) -> None:
    agent = agents("alpha-2")
    order = assignment(SAVE + "save 3; sleep 300")
    portal.assign("alpha-2", order)
    book = portal.nodes["alpha-2"]
    portal.wait(lambda: order.fence in book.reports and book.reports[order.fence].checkpoint)
    agent.kill()
    book.reports.clear()
    agent.start()
    portal.wait(lambda: order.fence in book.reports and book.reports[order.fence].checkpoint)
    portal.unlist("alpha-2", order.fence)
    portal.ended("alpha-2", order.fence)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read more than the job's user")
@pytest.mark.parametrize("way", ["file", "folder"])
def test_nothing_is_read_with_the_agents_own_rights(
    portal: Portal, agent: Agent, folder: Path, way: str
) -> None:
    """The job claims a file of root's, in its folder or by making a link of the folder."""
    shared, secret = folder / f"open-{way}", folder / f"closed-{way}"
    shared.mkdir()
    shared.chmod(0o1777)
    secret.mkdir(mode=0o700)
    for place in (shared if way == "file" else secret,):
        (place / "key").write_bytes(b"secret")
        (place / "key").chmod(0o600)
    digest = hashlib.sha256(b"secret").hexdigest()
    note = f'{{"path": "key", "step": 1, "bytes": 6, "digest": "{digest}"}}'
    (secret / "checkpoint.json").write_text(note)
    claim = f"""
    cd /; d="$TRAINYARD_CHECKPOINT_DIR"
    if [ {way} = file ]; then echo '{note}' > $d/.n; mv $d/.n $d/checkpoint.json
    else rmdir $d; ln -s {secret} $d; fi
    echo ready; sleep 300
    """
    order = assignment(claim, checkpoint_dir=str(shared if way == "file" else shared / "own"))
    portal.assign("alpha", order)
    reports = portal.nodes["alpha"].reports
    portal.wait(
        lambda: order.fence in reports and reports[order.fence].checkpoint_problem, what="a refusal"
    )
    assert "Permission denied" in reports[order.fence].checkpoint_problem
    assert reports[order.fence].checkpoint is None
    portal.unlist("alpha", order.fence)
    portal.ended("alpha", order.fence)

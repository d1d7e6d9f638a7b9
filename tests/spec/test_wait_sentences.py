"""Why a job waits is said in good English, of one thing as of several."""

from __future__ import annotations

import pytest

from scheduler.states import WaitReason, wait_sentence

QUOTA = {"account": "vision", "used": 0, "gpus": 2}


@pytest.mark.parametrize(
    ("reason", "facts", "said"),
    [
        (WaitReason.QUOTA_HARD, {"limit": 1, "cap": "GPUs"}, "vision may have 1 GPU; it has 0"),
        (WaitReason.QUOTA_HARD, {"limit": 2, "cap": "GPUs"}, "vision may have 2 GPUs; it has 0"),
        (WaitReason.QUOTA_HARD, {"limit": 1, "cap": "GPUs per job"}, "may have 1 GPU per job;"),
        (WaitReason.QUOTA_HARD, {"limit": 1, "cap": "running jobs"}, "may have 1 running job;"),
        (WaitReason.ARRAY_LIMIT, {"limit": 1}, "At most 1 task of its array runs at a time"),
        (WaitReason.ARRAY_LIMIT, {"limit": 3}, "At most 3 tasks of its array run at a time"),
        (WaitReason.BEHIND_HIGHER_PRIORITY, {"ahead": 1}, "; 1 job is ahead of it in pool"),
        (WaitReason.BEHIND_HIGHER_PRIORITY, {"ahead": 12}, "; 12 jobs are ahead of it in pool"),
    ],
)
def test_one_is_not_several(reason, facts, said):
    assert said in wait_sentence(reason, {**QUOTA, **facts})


def test_thousands_have_commas():
    facts = {"need": "8 GPUs", "free": 0, "total": 4096, "pool": "default"}
    said = wait_sentence(WaitReason.CAPACITY_BUSY, facts)
    assert said == "Needs 8 GPUs; 0 of 4,096 GPUs in pool default are free."
    assert "; 9,999 jobs are ahead" in wait_sentence(
        WaitReason.BEHIND_HIGHER_PRIORITY, {**facts, "ahead": 9999}
    )

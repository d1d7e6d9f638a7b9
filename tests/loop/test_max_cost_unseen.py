"""Who may not see costs learns no amount of a highest price by being refused."""

import pytest

from accounts.errors import DomainError, Forbidden, Invalid
from scheduler.loop.changing import change_job, preview, read_change
from scheduler.services.recurring.running import submit_due
from tests.loop.test_max_cost import priced
from tests.recurring import schedule_of
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("act", ["preview", "change"])
def test_who_may_not_see_costs_learns_no_amount_by_asking_for_more_gpus(
    cluster, alice, operator, project, act
):
    job = submit(alice, project, max_cost="0.15", time_limit="1h", hold=True)

    def said(actor, **more):
        change = read_change(gpus_per_node="2", **more)
        with pytest.raises(DomainError) as refused:
            if act == "preview":
                preview(actor, job, change, now=at(5))
            else:
                change_job(actor=actor, job=job, change=change, now=at(5))
        return refused.value

    for_owner, for_others = said(alice), said(operator)
    assert isinstance(for_owner, Invalid) and "at least 0.19 EUR" in for_owner.detail
    assert isinstance(for_others, Invalid) and for_others.field == "max_cost"
    assert "EUR" not in for_others.detail and "ask for fewer GPUs" in for_others.detail
    # Below, at and above what it may cost: whoever asks is told the same.
    assert {type(said(operator, max_cost=one)) for one in ("0.14", "0.15", "0.16")} == {Forbidden}


def test_what_became_of_a_schedules_job_says_no_amount(cluster, root, alice, project):
    schedule = schedule_of(alice, project, job={"max_cost": "0.1"})
    priced(root, 36, 1)
    assert submit_due(now=schedule.next_due_at) == 0
    said = schedule.runs.get().said
    assert said.startswith("max_cost: does not pay for 1m and the time to stop")
    assert "EUR" not in said

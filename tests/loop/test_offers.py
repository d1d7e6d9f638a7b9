"""What would start a job sooner is offered only where the change is not refused."""

from __future__ import annotations

import pytest

from scheduler.loop.answering import answer_for
from scheduler.models import Job, JobTemplate, TemplateUse
from scheduler.services.changing.limits import set_time_limit
from scheduler.services.changing.requests import Asks, set_request
from scheduler.services.errors import Invalid
from tests import scenes
from tests.composing import make_template
from tests.scenes import at

pytestmark = pytest.mark.django_db
RULES = {"gpus_per_node": "locked", "time_limit": "2h.."}


@pytest.fixture
def behind(root, alice, project):
    """Three of four GPUs are taken, two of them for an hour; the next job waits for all four."""
    cluster = scenes.build_cluster(root, nodes=1, gpus=4)
    running = scenes.submit(alice, project, gpus_per_node=3, time_limit="1h", now=at(0))
    scenes.start(running, cluster.node(1), now=at(0))
    scenes.submit(alice, project, gpus_per_node=4, now=at(1))
    return cluster


def offered(viewer, job, at_s) -> list[list[str]]:
    answer = answer_for(viewer, job, now=at(at_s))
    assert answer is not None
    return [one["fix"] for one in answer["options"]]


def test_no_limit_that_is_refused_is_offered(root, alice, lead, team, project, behind):
    """Neither one below what it must run, nor one that its template forbids its owner."""
    asks = {"gpus_per_node": 1, "time_limit": "8h", "now": at(2)}
    free, firm, bound = (
        scenes.submit(alice, project, **asks, **more)
        for more in ({}, {"min_runtime": "1h", "preemptible": True}, {})
    )
    use(make_template(root, team, rules=RULES), bound)
    for job in (firm, bound):
        with pytest.raises(Invalid, match="time_limit"):
            set_time_limit(actor=alice, job=job, time_limit_s=1800, now=at(900))
    assert [offered(alice, job, 900) for job in (free, firm, bound)] == [[["limit:1800"]], [], []]
    assert offered(lead, bound, 900) == [["limit:1800"]]


def test_no_request_that_is_refused_is_offered(root, alice, team, project, behind):
    job = scenes.submit(alice, project, gpus_per_node=2, time_limit="8h", now=at(2))
    assert offered(alice, job, 60) == [["gpus:1"]]
    use(make_template(root, team, rules=RULES), job)
    with pytest.raises(Invalid, match="gpus_per_node"):
        set_request(actor=alice, job=job, asks=Asks(gpus_per_node=1), now=at(60))
    assert offered(alice, job, 60) == []


def use(template: str, job: Job) -> None:
    """The job is one of it."""
    version = JobTemplate.objects.get(slug=template).versions.get()
    TemplateUse.objects.create(job=job, version=version, used_at=at(2))

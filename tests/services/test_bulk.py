"""Many jobs at once that wait for each other by name."""

from __future__ import annotations

import pytest

from scheduler.models import Dependency, Job
from scheduler.services.bulk import submit_jobs
from scheduler.spec import SpecInvalid, parse_spec
from tests import scenes
from tests.scenes import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def specs(project, **waits):
    return [
        parse_spec(
            {
                "name": name,
                "project": project.path,
                "script": "true",
                "depends_on": [{"kind": "afterok", "job": other} for other in others],
            }
        )
        for name, others in waits.items()
    ]


def test_names_become_numbers_whatever_the_order_sent(cluster, alice, project):
    sent = specs(
        project, collect=["left", "right"], left=["prepare"], right=["prepare"], prepare=[]
    )
    for _ in range(2):
        done = submit_jobs(actor=alice, specs=sent, idempotency_key="k", now=NOON)
    jobs = {one.job.name: one.job for one in done}
    assert [one.job.name for one in done] == ["collect", "left", "right", "prepare"]
    assert Job.objects.count() == 4
    collect = Job.objects.get(pk=jobs["collect"].pk)
    assert set(collect.spec["depends_on"]) == {
        f"afterok:{jobs['left'].pk}",
        f"afterok:{jobs['right'].pk}",
    }
    assert [jobs[name].state for name in ("prepare", "left", "collect")] == [
        "queued", "held", "held"]  # fmt: skip
    assert Dependency.objects.count() == 4


@pytest.mark.parametrize(
    ("waits", "circle"),
    [
        ({"a": ["a"]}, ("a -> a",)),
        ({"a": ["b"], "b": ["a"]}, ("a -> b -> a", "b -> a -> b")),
        (
            {"x": [], "a": ["b", "x"], "b": ["c"], "c": ["a"]},
            ("a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"),
        ),
    ],
)
def test_a_circle_is_refused_and_printed(cluster, alice, project, waits, circle):
    with pytest.raises(SpecInvalid) as refused:
        submit_jobs(actor=alice, specs=specs(project, **waits), now=NOON)
    (problem,) = refused.value.problems
    assert any(
        words in problem.message for words in ([circle] if isinstance(circle, str) else circle)
    )
    assert problem.field.endswith(".depends_on")
    assert not Job.objects.exists()


def test_a_circle_of_a_hundred_is_shown_short(cluster, alice, project):
    ring = {f"j{n}": [f"j{(n + 1) % 100}"] for n in range(100)}
    with pytest.raises(SpecInvalid) as refused:
        submit_jobs(actor=alice, specs=specs(project, **ring), now=NOON)
    assert "…" in refused.value.problems[0].message
    assert len(refused.value.problems[0].message) < 400


def test_names_must_be_of_one_job_of_the_bulk(cluster, alice, project):
    sent = [*specs(project, a=[], c=["b", "a"]), *specs(project, a=[])]
    with pytest.raises(SpecInvalid) as refused:
        submit_jobs(actor=alice, specs=sent, now=NOON)
    words = [problem.message for problem in refused.value.problems]
    assert "'b', and none" in words[0]
    assert "'a', and 2" in words[1]


def test_a_name_alone_is_refused_without_a_bulk(cluster, alice, project):
    with pytest.raises(SpecInvalid, match="give the number"):
        scenes.submit(alice, project, depends_on="afterok:train")

"""Many jobs at once that wait for each other by name."""

from __future__ import annotations

import pytest
from django.db.models import F

from accounts.services import create_project
from scheduler.models import Dependency, Job, JobEvent, JobSet, SetDependency
from scheduler.services.bulk import submit_jobs
from scheduler.services.jobs import submit_job
from scheduler.services.rows.updating import update_row
from scheduler.services.sharing.limits import set_caps, set_quota
from scheduler.services.submitting.ceilings import set_ceiling
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


def test_many_are_written_with_as_few_statements_as_one(
    cluster, alice, project, django_assert_max_num_queries
):
    sent = specs(project, **{f"j{number}": [] for number in range(100)})
    with django_assert_max_num_queries(25):
        done = submit_jobs(actor=alice, specs=sent, now=NOON)
    assert [one.job.name for one in done] == [spec.name for spec in sent]
    assert set(Job.objects.values_list("name", "state")) == {(one.name, "queued") for one in sent}
    assert JobEvent.objects.filter(kind="submitted").count() == 100


def test_those_of_many_projects_take_no_more_statements_than_those_of_two(
    cluster, root, alice, team, django_assert_max_num_queries
):
    made = [create_project(actor=root, team=team, name=f"P{number}") for number in range(40)]
    for some in (made[:2], made):
        sent = [one for project in some for one in specs(project, a=[])]
        with django_assert_max_num_queries(20):
            submit_jobs(actor=alice, specs=sent, now=NOON)


@pytest.mark.parametrize("where", ["project", "team", "org"])
@pytest.mark.parametrize(
    ("rule", "wish"),
    [
        ("tier", {"tier": "normal"}),
        ("room", {}),
        ("hours", {"time_limit": "2h"}),
    ],
)
def test_what_is_read_ahead_refuses_the_same_as_each_by_itself(
    cluster, root, alice, team, project, where, rule, wish
):
    """A rule on the way up of the second project; the first is of the same team."""
    free = create_project(actor=root, team=team, name="Free")
    owner = {"project": project, "team": team, "org": None}[where]
    if rule == "tier":
        set_ceiling(actor=root, owner=owner, tier="exploratory")
    elif rule == "room":
        set_caps(actor=root, owner=owner, max_pending=0)
    else:
        set_quota(actor=root, owner=owner, max_hours=1)
    sent = [
        parse_spec({"name": "a", "project": one.path, "script": "true", **wish})
        for one in (free, project)
    ]
    alone = []
    for row, spec in enumerate(sent):
        try:
            submit_job(actor=alice, spec=spec, now=NOON)
        except SpecInvalid as no:
            alone += [(f"jobs[{row}].{one.field}", one.message) for one in no.problems]
    with pytest.raises(SpecInvalid) as refused:
        submit_jobs(actor=alice, specs=sent, now=NOON)
    together = [(one.field, one.message) for one in refused.value.problems]
    # All or none: the bulk names the first of them.
    assert together == alone[:1] and len(alone) == (1 if where == "project" else 2)


def test_a_foreign_project_is_one_that_does_not_exist(cluster, alice, project, other_project):
    for path in (other_project.path, "nobody/nothing", "nothing"):
        sent = [*specs(project, a=[]), *specs(project, b=[])]
        sent[1] = sent[1].model_copy(update={"project": path})
        with pytest.raises(SpecInvalid, match=f"there is no project {path} for you"):
            submit_jobs(actor=alice, specs=sent, now=NOON)
    assert not Job.objects.exists()


def test_a_bulk_fills_a_waiting_room_to_the_last_place_and_no_further(
    cluster, root, alice, project, team
):
    set_caps(actor=root, owner=team, max_pending=3)
    with pytest.raises(SpecInvalid) as refused:
        submit_jobs(actor=alice, specs=specs(project, a=[], b=[], c=[], d=[]), now=NOON)
    assert [one.field for one in refused.value.problems] == ["jobs[3].project"]
    assert not Job.objects.exists()
    submit_jobs(actor=alice, specs=specs(project, a=[], b=[], c=[]), now=NOON)
    assert Job.objects.count() == 3


def test_a_key_that_brought_a_part_of_the_jobs_brings_the_rest(cluster, alice, project):
    first = specs(project, a=[])[0]
    known = submit_job(actor=alice, spec=first, idempotency_key="k:0", now=NOON).job
    done = submit_jobs(
        actor=alice, specs=specs(project, a=[], b=["a"]), idempotency_key="k", now=NOON
    )
    assert [(one.job.name, one.is_new) for one in done] == [("a", False), ("b", True)]
    assert done[0].job == known
    assert Dependency.objects.get().on == known


@pytest.mark.parametrize("guard", ["queued", "held"])
def test_a_row_is_written_as_the_model_would(cluster, alice, project, guard):
    jobs = [one.job for one in submit_jobs(actor=alice, specs=specs(project, a=[], b=[]), now=NOON)]
    fields = {"state": "held", "wait_facts": {"who": "é"}, "started_at": NOON, "exit_code": None}
    swift = update_row(Job, jobs[0].pk, fields, guard={"state": guard}, raised=("version",))
    usual = Job.objects.filter(pk=jobs[1].pk, state=guard).update(
        version=F("version") + 1, **fields
    )
    assert swift == bool(usual) == (guard == "queued")
    both = Job.objects.order_by("pk").values(*fields, "version", "name")
    assert {**both[0], "name": ""} == {**both[1], "name": ""}


def test_in_a_bulk_a_name_stands_for_the_whole_array(cluster, alice, project):
    common = {"project": project.path, "script": "true"}
    sent = [
        parse_spec(common | one)
        for one in (
            {"name": "collect", "depends_on": [{"kind": "afterok", "job": "sweep"}]},
            {"name": "sweep", "array": "0-2", "depends_on": [{"job": "prepare"}]},
            {"name": "prepare"},
        )
    ]
    for _ in range(2):
        done = submit_jobs(actor=alice, specs=sent, idempotency_key="k", now=NOON)
    assert Job.objects.count() == 5 and JobSet.objects.count() == 1
    collect, first, prepare = (one.job for one in done)
    job_set = JobSet.objects.get()
    assert first.job_set == job_set and first.array_index == 0
    collect.refresh_from_db()
    assert collect.spec["depends_on"] == [f"afterok:set={job_set.pk}"]
    assert SetDependency.objects.get().job == collect
    assert Dependency.objects.filter(on=prepare).count() == 3
    assert {one.state for one in (collect, *job_set.tasks.all())} == {"held"}


def test_a_bulk_has_no_more_tasks_than_one_array(cluster, alice, project):
    common = {"project": project.path, "script": "true", "array": "0-5999"}
    sent = [parse_spec({**common, "name": name}) for name in "ab"]
    with pytest.raises(SpecInvalid, match="12000 tasks in all; at most 10000") as refused:
        submit_jobs(actor=alice, specs=sent, now=NOON)
    assert refused.value.problems[0].field == "jobs"

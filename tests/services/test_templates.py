"""Templates and drafts: who writes, what a version holds, and that it never changes."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent
from scheduler.models import Job, JobDraft, TemplateUse, TemplateVersion
from scheduler.selectors.composing.templates import (
    get_version,
    get_visible_template,
    version_of_job,
    visible_templates,
)
from scheduler.services.changing.limits import set_time_limit
from scheduler.services.changing.many import Act, act_on_jobs
from scheduler.services.changing.requests import Asks, set_request
from scheduler.services.changing.tiers import set_tier
from scheduler.services.composing import drafts
from scheduler.services.composing import templates as service
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.sets import rerun_failed
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import Tier
from tests import scenes
from tests.composing import RULES, SPEC, make_template

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def job_of(version, project, **changes):
    return parse_spec({**version.document, "project": project.path, **changes})


def test_versions_never_change_and_jobs_keep_the_one_they_came_from(
    alice, lead, team, project, cluster
):
    slug = make_template(lead, team)
    assert slug == "vision-ddp"
    first = get_version(alice, slug)
    job = service.submit_from_template(
        actor=alice, version=first, spec=job_of(first, project), idempotency_key="k"
    ).job
    again = service.submit_from_template(
        actor=alice, version=first, spec=job_of(first, project), idempotency_key="k"
    )
    assert not again.is_new and again.job == job
    service.add_version(
        actor=lead, template=first.template, document={**SPEC, "retries": 2}, rules={}, note="more"
    )
    assert (get_version(alice, slug).number, get_version(alice, f"{slug}@1")) == (2, first)
    assert TemplateUse.objects.get(job=job).version == first
    seen = get_visible_template(alice, slug)
    assert seen.last_used_by_me_at == seen.last_used_at is not None
    assert get_visible_template(lead, slug).last_used_by_me_at is None
    with pytest.raises(TypeError, match="never changes"):
        first.save()
    told = AuditEvent.objects.filter(subject_kind="template").values_list("action", flat=True)
    assert sorted(told) == ["template.create", "template.version"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"script": "rm -rf /"}, "script"),
        ({"tier": "urgent"}, "tier"),
        ({"gpus_per_node": 0}, "gpus_per_node"),
        ({"time_limit": "13h"}, "time_limit"),
        ({"retries": 1}, "retries"),
    ],
)
def test_a_job_outside_the_rules_is_refused(alice, lead, team, project, cluster, changes, field):
    version = get_version(alice, make_template(lead, team))
    with pytest.raises(SpecInvalid) as caught:
        service.submit_from_template(
            actor=alice, version=version, spec=job_of(version, project, **changes)
        )
    assert [one.field for one in caught.value.problems] == [field]
    assert not Job.objects.exists()


def test_a_pool_that_is_not_named_is_the_default_one(alice, lead, team, project, cluster):
    rules = {"pool": "default, h100"}
    version = get_version(alice, make_template(lead, team, rules=rules))
    job = service.submit_from_template(actor=alice, version=version, spec=job_of(version, project))
    assert job.job.pool.name == "default"
    odd = get_version(alice, make_template(lead, team, rules={"pool": "h100, a100"}))
    with pytest.raises(SpecInvalid, match="must be one of h100"):
        service.submit_from_template(actor=alice, version=odd, spec=job_of(odd, project))


def test_rules_hold_for_changes_by_the_owner(alice, lead, operator, team, project, cluster):
    version = get_version(alice, make_template(lead, team, rules={**RULES, "pool": "locked"}))
    job = service.submit_from_template(
        actor=alice, version=version, spec=job_of(version, project)
    ).job
    with pytest.raises(Invalid, match="locked by the template"):
        set_tier(actor=alice, job=job, tier=Tier.EXPLORATORY)
    with pytest.raises(Invalid, match=r"must lie in \.\.12h"):
        set_time_limit(actor=alice, job=job, time_limit_s=13 * 3600)
    assert set_time_limit(actor=alice, job=job, time_limit_s=12 * 3600).time_limit_s == 12 * 3600
    # The pool is locked to what the template says: to none. That is where the job waits.
    for _ in range(2):
        gpus = 1 + job.gpus_per_node % 2
        job = set_request(actor=alice, job=job, asks=Asks(gpus_per_node=gpus))
        assert (job.gpus_per_node, job.pool.name) == (gpus, "default")
    # So it is in a copy.
    (copy,) = act_on_jobs(actor=alice, jobs=[end(job)], act=Act.RERUN).jobs
    assert (copy.spec["pool"], version_of_job(alice, copy)) == ("", version)
    job = copy
    with pytest.raises(Invalid, match=r"must lie in 1\.\.4"):
        set_request(actor=alice, job=job, asks=Asks(gpus_per_node=0))
    # Who changes jobs of others is not held by what their owners chose.
    assert set_time_limit(actor=lead, job=job, time_limit_s=13 * 3600).time_limit_s == 13 * 3600


def end(job):
    Job.objects.filter(pk=job.pk).update(state="failed", end_reason="exit_code")
    job.refresh_from_db()
    return job


def test_a_job_that_runs_again_is_of_its_template_still(alice, lead, team, project, cluster):
    version = get_version(alice, make_template(lead, team))
    spec = job_of(version, project)
    job = service.submit_from_template(actor=alice, version=version, spec=spec).job
    Job.objects.filter(pk=job.pk).update(state="failed", end_reason="exit_code")
    job.refresh_from_db()
    (again,) = act_on_jobs(actor=alice, jobs=[job], act=Act.RERUN).jobs
    assert (again.cloned_from, TemplateUse.objects.get(job=again).version) == (job, version)
    wider = parse_spec({**spec.document(), "gpus_per_node": 0})
    with pytest.raises(SpecInvalid, match="template"):
        service.submit_again(actor=alice, job=job, spec=wider)
    service.retire_template(actor=lead, template=version.template)
    free = service.submit_again(actor=alice, job=job, spec=wider).job
    assert not TemplateUse.objects.filter(job=free).exists()


def test_an_array_that_runs_again_is_of_its_template_still(alice, lead, team, project, cluster):
    """Said at its first task, it holds for all of them."""
    version = get_version(alice, make_template(lead, team))
    spec = parse_spec({**job_of(version, project).document(), "array": "0-2"})
    first = service.submit_from_template(actor=alice, version=version, spec=spec).job
    last = first.job_set.tasks.get(array_index=2)
    assert version_of_job(alice, last) == version
    with pytest.raises(Invalid, match=r"must lie in \.\.12h"):
        set_time_limit(actor=alice, job=last, time_limit_s=13 * 3600)
    Job.objects.filter(pk=last.pk).update(state="failed", end_reason="exit_code")
    again = rerun_failed(actor=alice, job_set=first.job_set)
    (task,) = again.tasks.all()
    assert (again.range, again.rerun_of, task.cloned_from) == ("2", first.job_set, None)
    assert version_of_job(alice, task) == version
    Job.objects.filter(pk=task.pk).update(state="failed", end_reason="exit_code")
    task.refresh_from_db()
    (alone,) = act_on_jobs(actor=alice, jobs=[task], act=Act.RERUN).jobs
    assert TemplateUse.objects.get(job=alone).version == version


def test_who_writes_and_who_sees(alice, lead, carol, root, team, other_project):
    slug = make_template(lead, team)
    template = get_visible_template(alice, slug)
    for actor, refusal in ((alice, Forbidden), (carol, Forbidden)):
        with pytest.raises(refusal):
            service.retire_template(actor=actor, template=template)
    with pytest.raises(NotFound):
        make_template(carol, team)
    with pytest.raises(NotFound):
        get_visible_template(carol, slug)
    for reference in (slug, f"{slug}@1", f"{slug}@9", "nothing", "A B", f"{slug}@" + "9" * 12):
        with pytest.raises(NotFound):
            get_version(carol, reference)
    shared = make_template(lead, team, name="Shared", is_public=True)
    assert [row.slug for row in visible_templates(carol)] == [shared]
    twin = make_template(lead, team)
    assert twin == f"{slug}-2"


def test_a_retired_one_starts_nothing_and_can_be_forked(alice, lead, team, project, cluster):
    version = get_version(lead, make_template(lead, team))
    service.retire_template(actor=lead, template=version.template)
    version = get_version(alice, version.reference)
    with pytest.raises(SpecInvalid, match="retired"):
        service.submit_from_template(actor=alice, version=version, spec=job_of(version, project))
    with pytest.raises(Conflict):
        service.add_version(actor=lead, template=version.template, document=SPEC, rules={})
    assert not visible_templates(alice).exists()
    fork = service.fork_template(actor=lead, version=version, team=team, name="Next")
    assert (fork.document, fork.rules) == (version.document, version.rules)
    assert fork.template.forked_from == version


def test_a_fork_keeps_the_rules_as_they_are(lead, team):
    rules = {"gpu_milli": "0.25, 0.5", "gpu_models": "H100, A100", "retries": "0, 2"}
    version = get_version(lead, make_template(lead, team, document={}, rules=rules))
    fork = service.fork_template(actor=lead, version=version, team=team, name="Next")
    assert (fork.document, fork.rules) == (version.document, version.rules)
    # Kept when it was no line yet, a rule goes on as well.
    odd = {"env": {"choices": [{"A": "1"}]}}
    TemplateVersion.objects.filter(pk=fork.pk).update(rules=odd)
    fork.rules = odd
    assert service.fork_template(actor=lead, version=fork, team=team, name="On").rules == odd


@pytest.mark.parametrize(
    ("document", "rules", "words"),
    [
        ({"memory": "lots"}, {}, "not a size"),
        ({"nonsense": 1}, {}, "not a field"),
        ({"env": {"HUB_TOKEN": "x"}}, {}, "looks like a secret"),
        ({}, {"project": "locked"}, "project"),
        ({"gpus_per_node": 8}, {"gpus_per_node": "1..4"}, "own rules"),
        ({}, {}, "says nothing"),
    ],
)
def test_what_makes_no_sense_is_not_kept(lead, team, document, rules, words):
    with pytest.raises(SpecInvalid, match=words):
        make_template(lead, team, document=document, rules=rules)
    assert not TemplateVersion.objects.exists()


def test_drafts_are_bounded_and_one_s_own(alice, bob):
    for number in range(drafts.MOST_DRAFTS + 3):
        drafts.save_draft(actor=alice, key=f"k{number}", fields={"name": f"n{number}\x00"})
    kept = JobDraft.objects.filter(owner=alice)
    assert kept.count() == drafts.MOST_DRAFTS and kept[0].name == f"n{number}"
    drafts.save_draft(actor=bob, key="k5", fields={"name": "his"})
    drafts.save_draft(actor=alice, key="k5", fields={"name": "again"})
    drafts.drop_draft(actor=alice, key="k5")
    assert JobDraft.objects.get(key="k5").owner == bob
    for key, fields in (("", {}), ("k\x00", {}), ("k" * 129, {}), ("k", {"script": "x" * 300_000})):
        with pytest.raises(Invalid):
            drafts.save_draft(actor=alice, key=key, fields=fields)

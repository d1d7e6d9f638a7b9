"""What a job starts from, over REST."""

from __future__ import annotations

import pytest

from scheduler.services.composing.drafts import save_draft
from tests.api.conftest import fields_of, problem_of
from tests.composing import RULES, SPEC

pytestmark = pytest.mark.django_db


def test_a_script_for_sbatch_is_read_and_every_option_answered(program, alice, cluster, project):
    text = f"#!/bin/sh\n#SBATCH -A {project.path} -N2 --gres=gpu:1 --nice=5\npython a.py\n"
    mine = program(alice)
    found = mine.post("/jobs/convert/", {"text": text}).json()
    # With two nodes and no srun the script is started on each, which sbatch does not.
    became = [one["became"] for one in found["remarks"]]
    assert became == ["taken", "taken", "taken", "lost", "changed"]
    assert found["lost"] == 1
    spec = found["spec"]
    assert (spec["project"], spec["nodes"], spec["gpus_per_node"]) == (project.path, 2, 1)
    assert fields_of(problem_of(mine.post("/jobs/convert/", {"text": ""}), 400)) == {"text"}


def test_a_template_over_rest_holds_what_it_says(program, alice, lead, carol, cluster, project):
    boss, mine = program(lead), program(alice)
    body = {"team": "vision", "name": "DDP", "spec": SPEC, "rules": RULES}
    made = boss.post("/templates/", body)
    assert made.status_code == 201, made.content
    slug = made.json()["slug"]
    problem_of(mine.post("/templates/", body), 403)
    problem_of(program(carol).post("/templates/", body), 404)
    bad = {**body, "spec": {"memory": "x"}, "rules": {"tier": "1..2"}}
    assert fields_of(problem_of(boss.post("/templates/", bad), 422)) == {"memory", "rules.tier"}
    assert [one["slug"] for one in mine.get("/templates/").json()["items"]] == [slug]
    job = mine.post(f"/jobs/?template={slug}@1", {"project": project.path, "gpus_per_node": 1})
    assert job.status_code == 201, job.content
    assert job.json()["spec"]["script"] == SPEC["script"]
    for query in ("", "&dry_run=1"):
        told = {"project": project.path, "tier": "urgent", "time_limit": "2d"}
        refused = problem_of(mine.post(f"/jobs/?template={slug}{query}", told), 422)
        assert fields_of(refused) == {"tier", "time_limit"}
    gone = problem_of(program(carol).post(f"/jobs/?template={slug}", {}), 422)
    assert fields_of(gone) == {"template"}
    more = boss.post(f"/templates/{slug}/versions/", {"spec": {"retries": 2}, "note": "less"})
    assert [one["number"] for one in more.json()["versions"]] == [2, 1]
    newest = boss.get(f"/templates/{slug}/?limit=1").json()
    older = boss.get(f"/templates/{slug}/?limit=1&cursor={newest['next_cursor']}").json()
    assert [page["versions"][0]["number"] for page in (newest, older)] == [2, 1]
    assert older["next_cursor"] is None
    fork = boss.post(f"/templates/{slug}/fork/", {"team": "vision", "name": "Next"}).json()
    assert fork["versions"][0]["spec"] == {"retries": 2}
    assert boss.post(f"/templates/{slug}/retire/").json()["retired_at"]
    problem_of(boss.post(f"/templates/{slug}/retire/"), 409)


def test_drafts_over_rest_are_one_s_own(program, alice, bob):
    pk = save_draft(actor=alice, key="k", fields={"name": "half"}).pk
    mine, his = program(alice), program(bob)
    assert [one["id"] for one in mine.get("/drafts/").json()["items"]] == [pk]
    assert his.get("/drafts/").json()["items"] == []
    problem_of(his.client.delete(f"/api/v1/drafts/{pk}/", **his.headers), 404)
    left = mine.client.delete(f"/api/v1/drafts/{pk}/", **mine.headers)
    assert left.json()["items"] == []

"""What a job starts from, over REST."""

from __future__ import annotations

import pytest

from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


def test_a_script_for_sbatch_is_read_and_every_option_answered(program, alice, cluster, project):
    text = f"#!/bin/sh\n#SBATCH -A {project.path} -N2 --gres=gpu:1 --nice=5\npython a.py\n"
    mine = program(alice)
    found = mine.post("/jobs/convert/", {"text": text}).json()
    assert [one["became"] for one in found["remarks"]] == ["taken", "taken", "taken", "lost"]
    assert found["lost"] == 1
    spec = found["spec"]
    assert (spec["project"], spec["nodes"], spec["gpus_per_node"]) == (project.path, 2, 1)
    assert fields_of(problem_of(mine.post("/jobs/convert/", {"text": ""}), 400)) == {"text"}

"""What jobs are alike with, read for thousands at once, is what their specs say one by one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.engine.learning import kind_of_spec
from scheduler.models import Attempt, Job
from scheduler.selectors.freeing.kinds import kind_columns, kind_in
from tests.scenes import NOON, submit

pytestmark = pytest.mark.django_db
SPECS: tuple[dict[str, Any], ...] = (
    {"script": "#!/bin/bash\n# Trains.\npython -u train.py --lr 1"},
    {"script": "echo 'it''s \"so\" \\ ü'\n" + "# long\n" * 200},
    {"command": ["python", "-u", "train.py", "a b", 'c"d']},
    {"command": [], "script": 7},
    {"command": None},
    {"session": {"app": "jupyter"}},
    {"session": {"app": "shell"}, "command": ["bash"]},
    {"session": None, "script": ""},
    {},
)


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_is_read_as_it_was_stored(cluster, alice, project, spec):
    """Commands, scripts, sessions, and what nobody should have stored."""
    job = submit(alice, project, gpus_per_node=2)
    Job.objects.filter(pk=job.pk).update(spec=spec)
    said = kind_of_spec(project.pk, job.nodes, 2, spec)
    rows = Job.objects.filter(pk=job.pk).values_list(*kind_columns())
    assert [kind_in(list(row)) for row in rows] == [said]
    Attempt.objects.create(job=job, number=1, assigned_at=NOON)
    rows = Attempt.objects.filter(job=job).values_list("job_id", *kind_columns("job__"))
    assert [kind_in(kind) for _, *kind in rows] == [said]

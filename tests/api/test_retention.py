"""How long a project keeps logs and files, over REST and on its page."""

from __future__ import annotations

import pytest

from scheduler.models import Retention
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db
URL = "/projects/vision/digits/retention/"


def test_leads_set_days_and_a_trial_deletes_nothing(program, alice, lead, project):
    shown = program(alice).get(URL).json()
    assert shown["log_days"] is None and shown["default_log_days"] > 0
    caller = program(lead)
    assert caller.post(f"{URL}trial/", {"log_days": 1}).json() == {
        "logs": 0,
        "files": 0,
        "bytes": 0,
        "samples": 0,
    }
    assert not Retention.objects.exists()
    assert caller.post(URL, {"log_days": 30}).json()["log_days"] == 30
    assert caller.post(URL, {"file_days": 5}).json()["log_days"] is None, "left out: the default"
    kept = caller.post(URL, {"sample_days": 60}).json()
    assert (kept["sample_days"], kept["default_sample_days"]) == (60, 400)
    assert fields_of(problem_of(caller.post(URL, {"sample_days": "x"}), 400)) == {"sample_days"}
    problem_of(program(alice).post(URL, {"log_days": 30}), 403)
    assert fields_of(problem_of(caller.post(URL, {"log_days": 0}), 400)) == {"log_days"}
    problem_of(caller.get("/projects/vision/nothing/retention/"), 404)


def test_the_page_counts_first_and_then_sets(client, lead, project):
    client.force_login(lead)
    page = "/teams/vision/projects/digits/retention/"
    tried = client.post(page, {"log_days": "30", "file_days": "", "try": "1"})
    assert "Nothing would go now." in tried.content.decode()
    assert not Retention.objects.exists()
    assert client.post(page, {"log_days": "30", "sample_days": "9"}).status_code == 302
    assert (Retention.objects.get().log_days, Retention.objects.get().sample_days) == (30, 9)
    refused = client.post(page, {"log_days": "soon", "file_days": ""})
    assert refused.status_code == 422 and "whole days" in refused.content.decode()

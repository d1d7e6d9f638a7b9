"""Text is what JSON calls a string, as the schema says."""

from __future__ import annotations

import pytest

from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/notifications/read/", "/notifications/mute/"])
@pytest.mark.parametrize("subject", [0, 1.5, True, None, ["job:1"]])
def test_what_is_no_text_names_no_subject(program, alice, path, subject):
    problem = problem_of(program(alice).post(path, {"subject": subject}), 400)
    assert fields_of(problem) == {"subject"}

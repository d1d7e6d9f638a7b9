"""The job files among the samples are jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.spec import parse_spec, read_document

FILES = sorted((Path(__file__).resolve().parents[2] / "deploy" / "samples").rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_a_sample_file_is_a_job(path):
    assert parse_spec(read_document(path.read_text("utf-8"))).name


def test_there_is_one():
    assert FILES

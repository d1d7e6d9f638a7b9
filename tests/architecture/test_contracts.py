"""The import contracts hold, and catch what they are there for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOMS, ROOT

PLANTED = [
    ("accounts/services/__init__.py", "import scheduler.models"),
    ("scheduler/engine/cycle.py", "import django"),
    ("scheduler/engine/cycle.py", "import time"),
    ("scheduler/ledger/rating.py", "import django"),
    ("scheduler/ledger/rating.py", "import time"),
    ("scheduler/wire/messages.py", "import scheduler.engine.plan"),
    ("scheduler/agent/daemon.py", "import scheduler.services.jobs"),
    ("scheduler/selectors/jobs.py", "import scheduler.services.jobs"),
    ("scheduler/models/jobs.py", "import scheduler.selectors.jobs"),
    ("portal/pages/jobs.py", "import portal.api.urls"),
    ("portal/api/urls.py", "import portal.pages.urls"),
    ("portal/forms/jobs.py", "import portal.pages.jobs"),
    ("portal/pages/jobs.py", "import guardian"),
    ("portal/pages/jobs.py", "import portal.settings.base"),
    ("portal/cli/__init__.py", "import django"),
]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The three rooms and the contracts, to plant things in."""
    folder = tmp_path_factory.mktemp("house")
    for room in ROOMS:
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, folder / room, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_all_contracts_are_kept(copy):
    result = lint_imports(copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("path", "line"), PLANTED)
def test_a_planted_import_is_caught(copy, path, line):
    file = copy / path
    before = file.read_text(encoding="utf-8")
    file.write_text(f"{before}\n{line}\n", encoding="utf-8")
    try:
        result = lint_imports(copy)
    finally:
        file.write_text(before, encoding="utf-8")
    assert result.returncode != 0
    assert "BROKEN" in result.stdout

"""The files that take longest come first: of two processes none is left alone with one at the end.

pytest-xdist by itself begins with the files of the most tests, so that one with a single test of
minutes came last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Twenty seconds and more.
LONGEST = (
    "protocol/test_promises.py",
    "browser/test_every_page.py",
    "engine/test_quota_histories.py",
    "simulator/test_guard.py",
    "outages/test_torture.py",
    "rights/test_matrix.py",
    "browser/test_busy_log.py",
    "browser/test_sessions.py",
    "browser/test_log.py",
    "engine/test_stop_properties.py",
    "flows/test_torchrun.py",
    "cli/test_commands.py",
    "agent/test_restart.py",
    "flows/test_job_life.py",
    "outages/test_outages.py",
    "flows/test_agent_versions.py",
    "pages/test_matrix.py",
    "pages/test_growth.py",
    "flows/test_sessions.py",
    "cli/test_requests.py",
    "outages/test_pages_measured.py",
    "pages/test_large_log.py",
    "pages/test_budgets.py",
    "agent/test_renewal.py",
    "agent/test_enrol.py",
)
_PLACE = {TESTS / name: place for place, name in enumerate(LONGEST)}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After all others have mixed them; who is not named keeps that order."""
    items.sort(key=lambda item: _PLACE.get(item.path, len(_PLACE)))

"""A test whose process died is begun again in a new one, without waiting for ever.

pytest-xdist gives the new process what the old one had left, one file at a time, and then waits for
a test to end; a process that knows of one test alone waits for the next one before it begins.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


class _Files(LoadFileScheduling):
    def _reschedule(self, node: Any) -> None:
        """Equals the usual one where nothing dies."""
        super()._reschedule(node)
        while not node.shutting_down and self.workqueue:
            if self._pending_of(self.assigned_work[node]) >= 2:
                return
            self._assign_work_unit(node)
        if not node.shutting_down:
            node.shutdown()


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Of those who run files as a whole."""
    return _Files(config, log) if config.getoption("dist") == "loadfile" else None

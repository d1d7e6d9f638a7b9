"""A newcomer's way from the first page to the first line of the sample's log, as it is clicked."""

from __future__ import annotations

import time
from typing import Any

import httpx

from portal.bench.faces.chromium import Browser
from portal.bench.figures import percentile, tell
from portal.embedded.stack import Stack

# Of `ux.md`: the last click submits, and its time begins there.
CLICKS = (
    "main a[href$='/jobs/new/']",
    "a[href$='?from=sample']",
    "main form button.pri:not([name])",
)
BUDGETS = {"first_line_p95_ms": 5000, "clicks": 3}
_LINE = "document.querySelector('.log .rows > *')?.checkVisibility()"
_ENDED = frozenset({"succeeded", "failed", "cancelled"})
_PATIENCE_S = 60


def first_lines(browser: Browser, stack: Stack, api: httpx.Client, tries: int) -> dict[str, Any]:
    """How soon after the press of its button a sample's first line is seen, time after time."""
    took = []
    for _ in range(tries):
        browser.open(f"{stack.address}/")
        for selector in CLICKS:
            began = time.monotonic()
            browser.click(selector)
            browser.until_loaded()
        browser.until(_LINE)
        took.append(1000 * (time.monotonic() - began))
        tell(f"first line of the sample after {took[-1]:.0f} ms")
        _end(api, int(browser.path().strip("/").split("/")[-1]))
    figures = {
        "clicks": len(CLICKS),
        "first_line_p50_ms": percentile(took, 0.5),
        "first_line_p95_ms": percentile(took, 0.95),
    }
    over = [
        {"page": "/", "measure": name, "value": figures[name], "budget": budget}
        for name, budget in BUDGETS.items()
        if figures[name] > budget
    ]
    return {**figures, "tries": tries, "over_budget": over}


def _end(api: httpx.Client, job: int) -> None:
    """So that the next one finds the node as this one did."""
    api.post(f"/jobs/{job}/cancel/")
    deadline = time.monotonic() + _PATIENCE_S
    while api.get(f"/jobs/{job}/").raise_for_status().json()["state"] not in _ENDED:
        if time.monotonic() > deadline:
            raise TimeoutError(f"sample {job} does not end")
        time.sleep(0.2)

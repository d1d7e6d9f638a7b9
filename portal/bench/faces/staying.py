"""A tab left open on a running job: what it holds, asks for and draws as time goes by."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import httpx

from portal.bench.faces.chromium import Browser
from portal.bench.figures import spec, tell
from portal.embedded.stack import Stack

# Of `ux.md` for an hour; a shorter stay has to keep them all the more.
BUDGETS = {"heap_growth_mib": 10.0, "nodes": 8000, "sockets": 1, "requests_per_minute": 12}
# Until here a page still loads, and its scripts grow into what they need.
_WARM_UP_S = 15
_LOOK_EVERY_S = 60
_PATIENCE_S = 60
_SCRIPT = "i=0; while :; do i=$((i+1)); echo step $i; sleep 1; done"


def stay_open(browser: Browser, stack: Stack, api: httpx.Client, minutes: int) -> dict[str, Any]:
    """The figures of that tab; `over_budget` names those beyond theirs."""
    job = _started(api)
    try:
        return _stay(browser, f"{stack.address}/jobs/{job}/", minutes)
    finally:
        # It would outlive its portal.
        api.post(f"/jobs/{job}/cancel/")
        wait_for(api, job, "cancelled")


def _stay(browser: Browser, page: str, minutes: int) -> dict[str, Any]:
    browser.slow_down(is_slow=False)
    browser.open(page)
    browser.stay(_WARM_UP_S)
    heap_mib, before, began = browser.heap_mib(), len(browser.asked()), time.monotonic()
    nodes = sockets = 0
    while (left := began + minutes * 60 - time.monotonic()) > 0:
        browser.stay(min(left, _LOOK_EVERY_S))
        nodes, sockets = max(nodes, browser.nodes()), max(sockets, browser.sockets())
        tell(f"{page} open: {browser.heap_mib():.1f} MiB, {nodes} elements")
    asked = browser.asked()[before:]
    figures = {
        "heap_growth_mib": round(browser.heap_mib() - heap_mib, 2),
        "nodes": nodes,
        "sockets": sockets,
        "requests_per_minute": round(len(asked) / minutes, 1),
    }
    over = [
        {"page": urlsplit(page).path, "measure": name, "value": value, "budget": BUDGETS[name]}
        for name, value in figures.items()
        if value > BUDGETS[name]
    ]
    told = {
        "page": urlsplit(page).path,
        "minutes": minutes,
        "heap_mib": round(heap_mib, 1),
        **figures,
    }
    told["asked"] = dict(Counter(asked).most_common(4))
    return {**told, "complaints": browser.complaints(), "over_budget": over}


def _started(api: httpx.Client) -> int:
    """A job that prints a line a second for as long as the benchmark lasts."""
    wish = spec("bench-tab", script=_SCRIPT, time_limit="6h")
    job = int(api.post("/jobs/", json=wish).raise_for_status().json()["id"])
    wait_for(api, job, "running")
    return job


def wait_for(api: httpx.Client, job: int, state: str) -> None:
    """Until the job is in this state; raises TimeoutError after a minute."""
    deadline = time.monotonic() + _PATIENCE_S
    while api.get(f"/jobs/{job}/").raise_for_status().json()["state"] != state:
        if time.monotonic() > deadline:
            raise TimeoutError(f"job {job} is not {state}")
        time.sleep(0.2)

"""A log of five hundred lines a second, followed: none is left out, and keys answer meanwhile."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

from portal.bench.faces.chromium import Browser
from portal.bench.faces.staying import wait_for
from portal.bench.figures import spec, tell
from portal.embedded.stack import Stack

# Of `ux.md`: the longest answer to a key while it prints, as it is, and rows that did not come in
# their turn.
BUDGETS = {"inp_ms": 200.0, "out_of_turn": 0}
LINES_A_SECOND = 500
# It prints while the page opens, too.
_SPARE_S = 15
# Formatted with `lines` and `a_second`; it stays when it has printed.
SCRIPT = """
python3 - <<'PY'
import sys, time
began = time.monotonic()
for n in range(1, {lines} + 1):
    sys.stdout.write("tick %d\\n" % n)
    if n % 50 == 0:
        sys.stdout.flush()
        time.sleep(max(0, began + n / {a_second} - time.monotonic()))
PY
sleep 600
"""
# Every row that ever comes has to be the one after the last.
_WATCH = """(() => {
  const rows = document.querySelector(".log .rows");
  const number = (row) => Number(row.id.slice(1));
  Object.assign(seen, {inp: 0, inputs: 0, wrong: 0, first: 0, last: 0});
  new MutationObserver((changes) => changes.forEach((change) =>
    change.addedNodes.forEach((row) => {
      if (row.nodeType !== 1) return;
      if (seen.last && number(row) !== seen.last + 1) seen.wrong += 1;
      seen.first = seen.first || number(row);
      seen.last = number(row);
    }))).observe(rows, {childList: true});
  document.querySelector(".log .lines").focus();
})()"""
_READ = "JSON.stringify([seen.inp, seen.inputs, seen.wrong, seen.last - seen.first])"


def follow(browser: Browser, stack: Stack, api: httpx.Client, seconds: int) -> dict[str, Any]:
    """The figures of that page; `over_budget` names those beyond theirs."""
    lines = LINES_A_SECOND * (seconds + _SPARE_S)
    script = SCRIPT.format(lines=lines, a_second=LINES_A_SECOND)
    wish = spec("bench-log", script=script, time_limit="1h")
    job = int(api.post("/jobs/", json=wish).raise_for_status().json()["id"])
    wait_for(api, job, "running")
    page = f"/jobs/{job}/logs/"
    try:
        browser.open(f"{stack.address}{page}")
        browser.value(_WATCH)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            # Long lines wrapped and not, times shown in all ways, each as it was in the end.
            for key in "wwtttt":
                browser.key(key)
                browser.stay(0.2)
        inp_ms, inputs, wrong, came = json.loads(browser.value(_READ))
    finally:
        api.post(f"/jobs/{job}/cancel/")
        wait_for(api, job, "cancelled")
    figures = {"inp_ms": inp_ms, "out_of_turn": wrong}
    tell(f"{page} followed: {came} lines, {inputs} keys, {figures}")
    over = [
        {"page": page, "measure": name, "value": value, "budget": BUDGETS[name]}
        for name, value in figures.items()
        if value > BUDGETS[name]
    ]
    # One that hardly printed, or heard no key, has shown nothing.
    if came < LINES_A_SECOND * seconds / 2 or inputs < seconds:
        over.append({"page": page, "measure": "not_measured", "value": 1, "budget": 0})
    return {"seconds": seconds, "lines": came, "keys": inputs, **figures, "over_budget": over}

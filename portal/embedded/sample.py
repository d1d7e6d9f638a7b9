"""Submit the digits sample over REST, wait for its end, read everything back from the API."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import httpx

from portal.pages.samples import sample_document

PROJECT, POOL = "vision/digits", "default"
_ACCURACY = re.compile(r"final accuracy: ([01]\.\d+)")
_EPOCH = re.compile(r"epoch +(\d+)/(\d+)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class SampleProblem(Exception):
    """The sample did not succeed; the text says how it ended and shows its last lines."""


@dataclass(frozen=True, slots=True)
class SampleResult:
    """What the API says about the finished job. `unit_price` is per GPU-hour."""

    job_id: int
    state: str
    submit_to_start_ms: float
    submit_to_end_s: float
    log_lines: int
    epochs: int
    samples: int
    gpu_seconds: int
    cost: Decimal
    currency: str
    unit_price: Decimal
    final_accuracy: float


def run_sample(
    address: str,
    token: str,
    *,
    timeout_s: float = 120.0,
    joins: bool = False,
    tell: Callable[[str], None],
) -> SampleResult:
    """Run the sample to its end; raises SampleProblem unless it succeeded, also where the portal
    does not answer. `joins`: follow one of an earlier start that still waits.
    """
    try:
        return _run_sample(address, token, timeout_s, joins, tell)
    except httpx.HTTPError as problem:
        raise SampleProblem(f"the portal did not answer: {problem}") from None


def _run_sample(
    address: str, token: str, timeout_s: float, joins: bool, tell: Callable[[str], None]
) -> SampleResult:
    with httpx.Client(
        base_url=f"{address}/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        timeout=30,
        # This machine's own server: no proxy leads there.
        trust_env=False,
    ) as api:
        began = time.monotonic()
        document = sample_document(PROJECT, POOL)
        job = _waiting(api, document["name"]) if joins else None
        if job is None:
            job = _asked(api.post("/jobs/", json=document))
            tell(f"job {job['id']} submitted")
        job_id = int(job["id"])
        job = _follow(api, job_id, began + timeout_s, tell)
        took_s = time.monotonic() - began
        if job["state"] != "succeeded":
            raise SampleProblem(_why_not(api, job))
        return _read_back(api, job, took_s)


def _waiting(api: httpx.Client, name: str) -> dict[str, Any] | None:
    """One of that name that was submitted earlier and has not started."""
    asked = {"owner": "me", "project": PROJECT, "state": "queued", "text": name}
    jobs = _asked(api.get("/jobs/", params=asked))["items"]
    return next((job for job in jobs if job["name"] == name), None)


def _follow(
    api: httpx.Client, job_id: int, deadline: float, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Wait for the end; tell what changes: state, reason to wait, epochs."""
    said = ""
    while True:
        job = _asked(api.get(f"/jobs/{job_id}/"))
        words = str(job["state"])
        if job["wait"]:
            words = str(job["wait"]["sentence"])
        elif job["state"] == "running":
            words = _progress(api, job_id) or words
        if words != said:
            said = words
            tell(f"job {job_id}: {words}")
        if job["is_final"]:
            return job
        if time.monotonic() > deadline:
            raise SampleProblem(f"job {job_id} was not over in time. Last word: {words}")
        time.sleep(0.2)


def _progress(api: httpx.Client, job_id: int) -> str:
    window = _asked(api.get(f"/jobs/{job_id}/log/", params={"tail": 1}))
    found = [_ANSI.sub("", line) for line in window["lines"] if _EPOCH.search(line)]
    return " ".join(found[-1].split()) if found else ""


def _read_back(api: httpx.Client, job: dict[str, Any], took_s: float) -> SampleResult:
    job_id = int(job["id"])
    log = _asked(api.get(f"/jobs/{job_id}/log/"))
    text = _ANSI.sub("", "\n".join(log["lines"]))
    accuracy, epochs = _ACCURACY.search(text), _EPOCH.findall(text)
    if accuracy is None or not epochs:
        raise SampleProblem(f"job {job_id} printed no final accuracy:\n{text[-1000:]}")
    series = _asked(api.get(f"/jobs/{job_id}/samples/"))["items"]
    cost = _asked(api.get(f"/jobs/{job_id}/cost/"))
    queued, started = (datetime.fromisoformat(job[name]) for name in ("queued_at", "started_at"))
    return SampleResult(
        job_id=job_id,
        state=str(job["state"]),
        submit_to_start_ms=round((started - queued).total_seconds() * 1000, 1),
        submit_to_end_s=round(took_s, 2),
        log_lines=int(log["total_lines"]),
        epochs=int(epochs[-1][1]),
        samples=sum(len(one["at"]) for one in series),
        gpu_seconds=int(cost["gpu_seconds"]),
        cost=Decimal(cost["cost"]),
        currency=str(cost["currency"]),
        unit_price=Decimal(cost["lines"][0]["unit_price"]) if cost["lines"] else Decimal(0),
        final_accuracy=float(accuracy[1]),
    )


def _why_not(api: httpx.Client, job: dict[str, Any]) -> str:
    reason = job["end"]["sentence"] if job["end"] else job["state"]
    reply = api.get(f"/jobs/{job['id']}/log/", params={"tail": 20})
    lines = reply.json().get("lines", []) if reply.status_code == 200 else []
    return f"job {job['id']} did not succeed: {reason}\n" + "\n".join(lines)


def _asked(reply: httpx.Response) -> Any:
    if reply.is_success:
        return reply.json()
    raise SampleProblem(f"{reply.request.url.path}: {reply.status_code} {reply.text[:500]}")

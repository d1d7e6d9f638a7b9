"""What no schedule can beat."""

from __future__ import annotations

import heapq

import numpy as np

from scheduler.engine.snapshot import Floats, Ints


def jct_bound_s(submit_s: Floats, duration_s: Floats, gpus: Ints, capacity: int) -> float:
    """A lower bound of the mean completion time on `capacity` GPUs; jobs sorted by submit.

    The largest of three: the mean run time; the mean completion time on one machine as fast as all
    GPUs together under shortest-remaining-first, where job j is its area d g / C; and mean(M) +
    mean(d) / 2 - mean(submit), where M is the mean time at which a job's area is processed. The
    last: however areas are laid out, end >= M + d / 2, and the sum of M is least when the fast
    machine always works on the job of the smallest *whole* area (mean busy times: Goemans,
    Queyranne, Schulz, Skutella and Wang, Single machine scheduling with release dates, SIAM J.
    Discrete Mathematics 15, 2002, section 2).
    """
    area_s = duration_s * gpus / capacity
    by_remaining = _fast_machine(submit_s, area_s, is_static=False)
    by_area = _fast_machine(submit_s, area_s, is_static=True)
    run_s = float(duration_s.mean())
    return max(
        run_s,
        float((by_remaining[0] - submit_s).mean()),
        float((by_area[1] - submit_s).mean()) + run_s / 2,
    )


def _fast_machine(submit_s: Floats, area_s: Floats, *, is_static: bool) -> tuple[Floats, Floats]:
    """End of each job, and the mean time of its processing, on one preemptive machine.

    Always the job of the smallest remaining area; of the smallest whole area if `is_static`.
    """
    size = len(submit_s)
    left, moment = area_s.astype(np.float64).copy(), np.zeros(size)
    end = np.zeros(size)
    waiting: list[tuple[float, int]] = []
    now, arrived = float(submit_s[0]), 0
    while arrived < size or waiting:
        if not waiting:
            now = max(now, float(submit_s[arrived]))
        while arrived < size and submit_s[arrived] <= now:
            heapq.heappush(waiting, (float(area_s[arrived]), arrived))
            arrived += 1
        until = float(submit_s[arrived]) if arrived < size else np.inf
        key, job = heapq.heappop(waiting)
        work = min(float(left[job]), until - now)
        moment[job] += work * (now + work / 2)
        left[job] -= work
        now += work
        if left[job] > 1e-9:
            heapq.heappush(waiting, (key if is_static else float(left[job]), job))
        else:
            end[job] = now
    return end, moment / area_s

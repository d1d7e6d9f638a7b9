"""How long a job will probably run, as told by those that were alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

from scheduler.engine.snapshot.columns import Floats, floats

# Fewer than so many runs tell nothing; then those that are alike in less are asked.
LEAST_RUNS = 3

# Project, entry point, GPUs of all shares, template (0 for none).
Kind: TypeAlias = tuple[int, str, int, int]
# What the runs of each level have in common, as `_levels` lists them.
_ALIKE = (
    "from the same template on as many GPUs",
    "of the same program on as many GPUs",
    "of the project on as many GPUs",
    "on as many GPUs",
    "of all jobs",
)
# Sessions last as long as somebody stays: nothing that ends by itself tells anything of them.
_SESSION = ":session "
_SESSIONS_ALIKE = (
    "from the same template on as many GPUs",
    "of such sessions on as many GPUs",
    "of the project's sessions",
    "of all sessions",
)


def entry_point(command: Iterable[str], script: str) -> str:
    """What a job runs: the first two words of its command, or of the first line of its script.

    Options and comments are passed over: `python -u train.py --lr 1` is `python train.py`.
    """
    words = [str(word) for word in command]
    if not words:
        lines = (line.strip() for line in script.splitlines())
        words = next((line.split() for line in lines if line and not line.startswith("#")), [])
    return " ".join([word for word in words if not word.startswith("-")][:2])[:128]


def kind_of(
    project: int,
    nodes: int,
    gpus_per_node: int,
    command: object,
    script: object,
    app: object = None,
    template: int | None = None,
) -> Kind:
    """What a job is alike with, from its columns and its spec as it was stored; `app` is that of a
    session."""
    words = command if isinstance(command, list) else []
    program = entry_point(words, script if isinstance(script, str) else "")
    if isinstance(app, str) and app:
        program = f"{_SESSION}{app} {program}"
    return project, program, nodes * gpus_per_node, template or 0


def kind_of_spec(project: int, nodes: int, gpus_per_node: int, spec: Mapping[str, object]) -> Kind:
    """The same of a whole spec as it was stored, whatever template it is from."""
    session = spec.get("session")
    app = session.get("app") if isinstance(session, Mapping) else None
    words = (spec.get("command"), spec.get("script"))
    return kind_of(project, nodes, gpus_per_node, *words, app)


class RunTimes:
    """Run times of ended jobs in seconds: of one template and program, of one program, of a project
    with as many GPUs, of as many GPUs, of all; the first of these that has `LEAST_RUNS` longer than
    the job has run tells. Of sessions only sessions tell, and of other jobs no session does.
    """

    def __init__(self, runs: Iterable[tuple[Kind, float]] = ()) -> None:
        found: dict[tuple[object, ...], list[float]] = {}
        for kind, run_s in runs:
            for level in _levels(kind):
                found.setdefault(level, []).append(run_s)
        self._runs: dict[tuple[object, ...], Floats] = {
            level: floats(np.sort(runs)) for level, runs in found.items()
        }

    def ahead_s(self, kind: Kind, attained_s: float) -> float:
        """The median run time still ahead of a job that has run so long; infinite if unknown."""
        for level in _levels(kind):
            runs = self._runs.get(level)
            if runs is None:
                continue
            longer = runs[np.searchsorted(runs, attained_s, side="right") :]
            if (many := len(longer)) >= LEAST_RUNS:
                # Sorted already: equals np.median, which looks for the middle first.
                median = (float(longer[(many - 1) // 2]) + float(longer[many // 2])) / 2
                return max(1.0, median - attained_s)
        return float("inf")

    def spread_s(self, kind: Kind) -> tuple[float, float, int, str] | None:
        """p50 and p90 of the run times of a new job, of how many runs, and how these are alike.

        None while no level has `LEAST_RUNS`.
        """
        alike_in = _SESSIONS_ALIKE if kind[1].startswith(_SESSION) else _ALIKE
        for level, alike in zip(_levels(kind), alike_in[0 if kind[3] else 1 :], strict=True):
            runs = self._runs.get(level)
            if runs is not None and len(runs) >= LEAST_RUNS:
                p50_s, p90_s = np.quantile(runs, [0.5, 0.9]).tolist()
                return p50_s, p90_s, len(runs), alike
        return None


def _levels(kind: Kind) -> tuple[tuple[object, ...], ...]:
    project, program, gpus, template = kind
    own = (kind,) if template else ()
    if program.startswith(_SESSION):
        return *own, (project, program, gpus), (_SESSION, project), (_SESSION,)
    return *own, (project, program, gpus), (project, gpus), (gpus,), ()

"""Fields that a job may have and that the scheduler does not honour yet.

A field is never ignored: until the engine keeps it, a submit that asks for it is refused by name.
Who teaches the scheduler a field removes its row here, in the same change; the spec, its form and
its columns are there already. Rows: the field, and whether a spec asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.spec.problems import SpecProblem
from scheduler.spec.schema import JobSpec
from scheduler.spec.values import WHOLE_MILLI

NOT_YET: Mapping[str, Callable[[JobSpec], bool]] = {
    "gpu_milli": lambda spec: spec.gpu_milli < WHOLE_MILLI,
}


def not_yet(spec: JobSpec) -> list[SpecProblem]:
    """What this spec asks for and would not get."""
    words = "is not honoured by this scheduler yet; remove it"
    return [SpecProblem(field, words) for field, asks in NOT_YET.items() if asks(spec)]

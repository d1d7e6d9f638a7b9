"""What a job waits for and how often it runs: dependencies and arrays as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from scheduler.spec import text
from scheduler.spec.parts import Part
from scheduler.spec.problems import given
from scheduler.spec.values import Whole
from scheduler.states import DependencyKind

MAX_DEPENDENCIES: Final = 32
MAX_TASKS: Final = 10_000
MAX_INDEX: Final = 999_999
SINGLETON: Final = "singleton"
AFTERCORR: Final = "aftercorr"
_KINDS = (*(str(kind) for kind in DependencyKind), AFTERCORR)
_NUMBER = re.compile(r"#?(\d{1,18})", re.ASCII)
_SET = re.compile(r"set=#?(\d{1,18})", re.ASCII)
_TASK = re.compile(r"(\d{1,18})_(\d{1,7})", re.ASCII)
_FIELDS = ("kind", "job", "set", "index")
_PIECE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,6}))?)?", re.ASCII)
DEPENDENCY_HELP = (
    "write it like afterok:12, afterany:12:13, afterok:set=4 for a whole array, or singleton"
)
RANGE_HELP = "write it like 0-99, 1,3,5-9 or 0-60:10"


@dataclass(frozen=True, slots=True)
class Dependency:
    """Wait for a job: its number, or its name within the same bulk. With `job_set` for all tasks of
    that array, or for the one of this `index`. Neither: singleton. `aftercorr`: each task of an
    array for the success of the one of its own index."""

    kind: str
    job: int | str = 0
    job_set: int = 0
    index: int | None = None

    def written(self) -> str | dict[str, Any]:
        """As `read_dependencies` takes it; a name may hold colons, so it stands by itself."""
        if self.kind == SINGLETON:
            return SINGLETON
        if self.index is not None:
            return f"{self.kind}:{self.job_set}_{self.index}"
        if self.job_set:
            return f"{self.kind}:set={self.job_set}"
        if isinstance(self.job, int):
            return f"{self.kind}:{self.job}"
        return {"kind": self.kind, "job": self.job}


def read_dependencies(value: object) -> tuple[Dependency, ...]:
    """One dependency or a list: `12`, `afterok:12:13`, `singleton`, `{kind: afterok, job: 12}`; of
    array 4 all tasks, `afterok:set=4` or `{kind: afterok, set: 4}`, or the one of index 3,
    `afterok:4_3` or `{kind: afterok, set: 4, index: 3}`."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, (int, Mapping)):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"must be a list of dependencies; {DEPENDENCY_HELP}")
    if len(value) > MAX_DEPENDENCIES:
        raise ValueError(f"names {len(value)} jobs; at most {MAX_DEPENDENCIES} are allowed")
    found = tuple(dict.fromkeys(one for item in value for one in _read(item)))
    if len(found) > MAX_DEPENDENCIES:
        raise ValueError(f"names {len(found)} jobs; at most {MAX_DEPENDENCIES} are allowed")
    return found


def of_task(named: Iterable[Dependency], index: int) -> tuple[Dependency, ...]:
    """What the task of this index waits for, of what its array does."""
    afterok = str(DependencyKind.AFTEROK)
    return tuple(
        replace(one, kind=afterok, index=index) if one.kind == AFTERCORR else one for one in named
    )


def _read(item: object) -> Iterable[Dependency]:
    if isinstance(item, Dependency):
        return [item]
    if isinstance(item, bool):
        raise ValueError(f"{item!r} is not a dependency; {DEPENDENCY_HELP}")
    if isinstance(item, Mapping):
        return [_of_mapping(item)]
    if isinstance(item, int):
        return [_dependency(str(DependencyKind.AFTEROK), item)]
    if not isinstance(item, str):
        raise ValueError(f"{str(item)[:40]!r} is not a dependency; {DEPENDENCY_HELP}")
    kind, colon, rest = item.strip().partition(":")
    if not colon and kind not in _KINDS:
        kind, rest = (SINGLETON, "") if kind == SINGLETON else ("afterok", kind)
    parts = rest.split(":") if rest else [""]
    return [_of_text(kind.strip(), part.strip()) for part in parts]


def _of_text(kind: str, part: str) -> Dependency:
    if match := _SET.fullmatch(part):
        return _of_set(kind, match[1])
    if match := _TASK.fullmatch(part):
        return _of_set(kind, match[1], match[2])
    return _dependency(kind, part)


def _of_mapping(item: Mapping[Any, Any]) -> Dependency:
    alien = [str(key)[:40] for key in item if key not in _FIELDS]
    if alien:
        raise ValueError(f"has the field {alien[0]!r}; a dependency has {', '.join(_FIELDS)}")
    kind = item.get("kind", str(DependencyKind.AFTEROK))
    job, job_set, index = (item.get(name) for name in _FIELDS[1:])
    if job_set is None:
        if index is not None:
            raise ValueError("names an index without its array; give its number as set")
        return _dependency(kind, "" if job is None else job)
    if job is not None:
        raise ValueError("names a job and a set; make two dependencies of it")
    return _of_set(kind, job_set, index)


def _of_set(kind: object, job_set: object, index: object = None) -> Dependency:
    """Of a whole array, or of the task of an index."""
    if _known(kind) == SINGLETON:
        raise ValueError("singleton names no array; it waits for yours of the same name")
    number = _whole(job_set)
    if number is None or not 0 < number < 2**63:
        raise ValueError(f"{given(job_set)} is not the number of an array; {DEPENDENCY_HELP}")
    if index is None:
        return Dependency(str(kind), job_set=number)
    if kind == AFTERCORR:
        raise ValueError(f"aftercorr waits task for task: write aftercorr:set={number}")
    place = _whole(index)
    if place is None or not 0 <= place <= MAX_INDEX:
        raise ValueError(f"{given(index)} is not an index; write one task like afterok:4_3")
    return Dependency(str(kind), job_set=number, index=place)


def _whole(value: object) -> int | None:
    """A whole number, also as text; None for anything else."""
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value.strip())):
        return int(match[1])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _known(kind: object) -> object:
    if kind not in (*_KINDS, SINGLETON):
        known = ", ".join((*_KINDS, SINGLETON))
        raise ValueError(f"{str(kind)[:40]!r} is not one of {known}; {DEPENDENCY_HELP}")
    return kind


def _dependency(kind: object, job: object) -> Dependency:
    if _known(kind) == SINGLETON:
        if job not in ("", 0, None):
            raise ValueError("singleton names no job; it waits for yours of the same name")
        return Dependency(SINGLETON)
    if isinstance(job, bool) or not isinstance(job, (int, str)) or job in ("", 0):
        raise ValueError(f"{kind} must name a job; {DEPENDENCY_HELP}")
    if isinstance(job, str) and (match := _NUMBER.fullmatch(job)):
        job = int(match[1])
    if isinstance(job, int):
        if not 0 < job < 2**63:
            raise ValueError(f"{job} is not the number of a job; {DEPENDENCY_HELP}")
        if kind == AFTERCORR:
            raise ValueError(f"aftercorr names an array: write aftercorr:set={job} for array {job}")
        return Dependency(str(kind), job)
    return Dependency(str(kind), text.clean_name(job))


_SHAPE: Final = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": list(_KINDS), "default": "afterok"},
        "job": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "description": "its number, or its name in a bulk",
        },
        "set": {"type": "integer", "minimum": 1, "description": "all tasks of that array"},
        "index": {"type": "integer", "minimum": 0, "description": "of the set this task alone"},
    },
    "additionalProperties": False,
}
Dependencies = Annotated[
    tuple[Dependency, ...],
    BeforeValidator(read_dependencies),
    PlainSerializer(lambda found: [one.written() for one in found], return_type=list[Any]),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, _SHAPE]},
            "maxItems": MAX_DEPENDENCIES,
            "description": "Such as afterok:12, afterok:set=4 (all of array 4), afterok:4_3 (its "
            "task of index 3), aftercorr:set=4 (each task for that of its index), singleton; or as "
            "objects.",
        }
    ),
]


def read_range(value: str) -> tuple[int, ...]:
    """The indexes of `0-99`, `1,3,5-9`, `0-60:10`, ascending; raises ValueError."""
    found: list[int] = []
    pieces = value.replace(" ", "").split(",")
    for piece in pieces[: MAX_TASKS + 1]:
        match = _PIECE.fullmatch(piece)
        if not match:
            raise ValueError(f"{piece[:40]!r} is not a range; {RANGE_HELP}")
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if first > last or not step:
            raise ValueError(f"{piece[:40]!r} is empty; {RANGE_HELP}")
        if last > MAX_INDEX:
            raise ValueError(f"holds the index {last}; the highest is {MAX_INDEX}")
        if len(found) + (last - first) // step + 1 > MAX_TASKS:
            raise ValueError(f"has more than {MAX_TASKS} tasks; use several arrays")
        found += range(first, last + 1, step)
    if len(set(found)) < len(found):
        raise ValueError(f"holds an index twice; {RANGE_HELP}")
    return tuple(sorted(found))


def write_range(indexes: Iterable[int]) -> str:
    """The shortest text of commas and dashes that `read_range` turns back into `indexes`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] + 1 == index:
            runs[-1] = [runs[-1][0], index]
        else:
            runs.append([index])
    return ",".join("-".join(str(end) for end in run) for run in runs)


def _range(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        read_range(value)
        return value.replace(" ", "")
    raise ValueError(f"{given(value)} is not a range; {RANGE_HELP}")


class ArraySpec(Part):
    """The same job for each index of `range`; at most `max_parallel` at a time, 0 for no limit."""

    range: Annotated[str, BeforeValidator(_range)]
    max_parallel: Annotated[Whole, Field(ge=0, le=MAX_TASKS)] = 0

    @property
    def indexes(self) -> tuple[int, ...]:
        """Ascending."""
        return read_range(self.range)


def _array(value: object) -> object:
    """`0-99%10`, as Slurm writes it, is a range and its throttle."""
    if isinstance(value, str) and not value.strip():
        return None
    if isinstance(value, str):
        spelt, percent, parallel = value.partition("%")
        return {"range": spelt} | ({"max_parallel": parallel} if percent else {})
    if isinstance(value, int) and not isinstance(value, bool):
        return {"range": value}
    return value


Array = Annotated[ArraySpec | None, BeforeValidator(_array)]

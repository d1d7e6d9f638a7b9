"""What each option of sbatch means for a job here: one function an option, by its long name.

A function writes into the sheet and returns what a person should know, or nothing. It raises
ValueError for a value that has no meaning here; then the option is left out and the reason told.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from scheduler.spec import units
from scheduler.spec.parts import MOST_OTHER_POOLS
from scheduler.spec.slurm import figures, mails, moments
from scheduler.spec.values import format_moment

_TIERS = ("exploratory", "normal", "urgent", "production")
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_PROJECT = re.compile(f"{_SLUG.pattern}/{_SLUG.pattern}", re.ASCII)
_SIGNAL = re.compile(r"(?:[BR]:)*(?:SIG)?([A-Za-z0-9]{1,8})(?:@(\d{1,6}))?", re.ASCII)
_SIGNALS = {"1": "HUP", "2": "INT", "3": "QUIT", "10": "USR1", "12": "USR2", "15": "TERM"}
_DEPENDENCY = re.compile(
    r"(after|afterok|afternotok|afterany)((?::(?:set=)?\d{1,18}|:\d{1,18}_\d{1,7})+)", re.ASCII
)
_CORRESPONDING = re.compile(r"aftercorr((?::(?:set=)?\d{1,18})+)", re.ASCII)
_ROUNDED = 60


@dataclass(slots=True)
class Sheet:
    """The job so far, and the figures that only make sense together."""

    document: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)
    gpu_type: str = ""
    is_by_gpu: bool = False
    # Addresses and names of who submits.
    own: tuple[str, ...] = ()
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


def _text(name: str) -> Callable[[Sheet, str], str]:
    def take(sheet: Sheet, value: str) -> str:
        sheet.document[name] = value
        return ""

    return take


def _number(name: str) -> Callable[[Sheet, str], str]:
    def take(sheet: Sheet, value: str) -> str:
        if not (value.isascii() and value.isdigit() and int(value[:7]) > 0 and len(value) <= 6):
            raise ValueError("is not a whole number from 1 to 999999")
        sheet.figures[name] = int(value)
        return ""

    return take


def _memory(name: str) -> Callable[[Sheet, str], str]:
    def take(sheet: Sheet, value: str) -> str:
        sheet.figures[name] = figures.mebibytes(value)
        return ""

    return take


def _account(sheet: Sheet, value: str) -> str:
    if not _PROJECT.fullmatch(value):
        raise ValueError("is no team/project; choose the project that pays")
    sheet.document["project"] = value
    return ""


def _partition(sheet: Sheet, value: str) -> str:
    named = [one.strip() for one in value.lower().replace("_", "-").split(",")]
    if not all(map(_SLUG.fullmatch, named)):
        raise ValueError("cannot be the name of a pool; choose a pool")
    first, *others = dict.fromkeys(named)
    kept, more = others[:MOST_OTHER_POOLS], others[MOST_OTHER_POOLS:]
    sheet.document |= {"pool": first, "other_pools": kept}
    return f"a job chooses from {1 + len(kept)} pools at most; the first are taken" if more else ""


def _qos(sheet: Sheet, value: str) -> str:
    if value.lower() not in _TIERS:
        raise ValueError(f"is none of the tiers {', '.join(_TIERS)}; choose one")
    sheet.document["tier"] = value.lower()
    return ""


def _time(sheet: Sheet, value: str) -> str:
    sheet.document["time_limit"] = units.format_duration(figures.seconds(value))
    return ""


def _nodes(sheet: Sheet, value: str) -> str:
    parts = re.split(r"[-,]", value)
    if not all(part.isascii() and part.isdigit() and len(part) <= 6 for part in parts):
        raise ValueError("is not a number of nodes, such as 4 or 2-8")
    sizes = sorted({int(part) for part in parts})
    sheet.figures["nodes"] = max(1, sizes[0])
    sheet.document["nodes"] = sizes[0] if len(sizes) == 1 else f"{sizes[0]}..{sizes[-1]}"
    if "," in value and len(sizes) > 1:
        sheet.document["node_sizes"] = sizes
    return ""


def _gpus(name: str) -> Callable[[Sheet, str], str]:
    def take(sheet: Sheet, value: str) -> str:
        kind, count = figures.gpus(value)
        sheet.gpu_type = kind or sheet.gpu_type
        sheet.figures[name] = count
        return ""

    return take


def _gres(sheet: Sheet, value: str) -> str:
    """Generic resources of each node; all but GPUs are told as labels or licences."""
    cards = [one for one in value.split(",") if re.match(r"gpus?(?::|=|$)", one)]
    if len(cards) != 1:
        raise ValueError("names no GPUs of one type; other resources are labels or licences")
    _gpus("gpus_per_node")(sheet, re.sub(r"\(.*\)$", "", cards[0].replace("gpus", "gpu", 1)))
    return "" if cards[0] == value else "only its GPUs are taken; the rest are labels or licences"


def _tmp(sheet: Sheet, value: str) -> str:
    sheet.document["scratch"] = units.format_size_mib(figures.mebibytes(value))
    return ""


def _constraint(sheet: Sheet, value: str) -> str:
    if not all("=" in one for one in value.split(",")):
        raise ValueError("is a feature; here nodes have labels with values, such as network=ib")
    sheet.document["constraints"] = value.split(",")
    return ""


def _exclude(sheet: Sheet, value: str) -> str:
    sheet.document["exclude_nodes"] = figures.hosts(value)
    return ""


def _licences(sheet: Sheet, value: str) -> str:
    found = {}
    for one in value.split(","):
        name, _, count = one.replace("=", ":").partition(":")
        found[name.partition("@")[0]] = count or "1"
    if not all(count.isdigit() for count in found.values()) or "|" in value:
        raise ValueError("is not a list of licences with their counts, such as solver:2")
    sheet.document["licences"] = {name: int(count) for name, count in found.items()}
    return ""


def _exclusive(sheet: Sheet, value: str) -> str:
    if value:
        raise ValueError("keeps only some others away; here a job shares its nodes or does not")
    sheet.document["exclusive"] = True
    return ""


def _array(sheet: Sheet, value: str) -> str:
    sheet.document["array"] = value
    return "its tasks find their index in TRAINYARD_ARRAY_INDEX"


def _dependency(sheet: Sheet, value: str) -> str:
    found = []
    for one in value.split(","):
        if match := _CORRESPONDING.fullmatch(one):
            # It names arrays alone, so a bare number can be nothing else.
            numbers = match[1].replace("set=", "").split(":")[1:]
            one = "aftercorr:" + ":".join(f"set={number}" for number in numbers)
        elif one != "singleton" and not _DEPENDENCY.fullmatch(one):
            kinds = "after, afterok, afternotok, afterany, aftercorr and singleton"
            raise ValueError(f"is not one of {kinds}, all of which must hold")
        found.append(one)
    sheet.document["depends_on"] = found
    words = (
        "its numbers are those of jobs here, not of Slurm's; all of array 4 is set=4, a task 4_3"
    )
    return "" if found == ["singleton"] else words


def _begin(sheet: Sheet, value: str) -> str:
    return _moment(sheet, "begin", value)


def _deadline(sheet: Sheet, value: str) -> str:
    words = _moment(sheet, "finish_by", value)
    sheet.document["finish_by_policy"] = "cancel"
    return f"{words}; as with sbatch it is cancelled if it is late: finish_by_policy"


def _moment(sheet: Sheet, field: str, value: str) -> str:
    """A day and a time stay as they were written; what counts from now is that from now on."""
    at = moments.read_moment(value, sheet.now)
    if moments.is_written_out(value):
        sheet.document[field] = value
        return "is read as UTC"
    sheet.document[field] = format_moment(at)
    return f"is read as {at:%Y-%m-%d %H:%M:%S} UTC"


def _hold(sheet: Sheet, value: str) -> str:
    sheet.document["hold"] = True
    return ""


def _requeue(sheet: Sheet, value: str) -> str:
    sheet.document["preemptible"] = True
    return "it starts again after failures of nodes in any case"


def _no_requeue(sheet: Sheet, value: str) -> str:
    sheet.document["preemptible"] = False
    return "it is not stopped for others; after failures of nodes it starts again in any case"


def _export(sheet: Sheet, value: str) -> str:
    pairs = [one for one in value.split(",") if "=" in one]
    if pairs:
        sheet.document["env"] = dict(one.split("=", 1) for one in pairs)
    bare = [one for one in value.split(",") if "=" not in one and one not in ("NONE", "NIL")]
    words = "a job starts with a clean environment; give variables a value: env"
    return words if bare else ""


def _signal(sheet: Sheet, value: str) -> str:
    match = _SIGNAL.fullmatch(value)
    name = match and _SIGNALS.get(match[1], match[1].upper())
    if not match or name not in ("TERM", "INT", "USR1", "USR2", "HUP", "QUIT"):
        raise ValueError("is not a signal that a job can ask for, such as USR1@120")
    grace = min(int(match[2] or _ROUNDED), 600)
    sheet.document["stop"] = {"signal": f"SIG{name}", "grace": units.format_duration(grace)}
    late = int(match[2] or 0) > grace
    words = "it comes whenever the job is to stop, not only before its time limit"
    return f"{words}; at most 10m before" if late else words


def _switches(sheet: Sheet, value: str) -> str:
    count, at, _ = value.partition("@")
    if count != "1":
        raise ValueError("has no equal for several switches; see topology")
    sheet.document["topology"] = "rack:preferred" if at else "rack"
    return "a switch is taken for a rack"


def _wckey(sheet: Sheet, value: str) -> str:
    sheet.document["labels"] = {"wckey": value}
    return "is kept as a label"


MEANINGS: dict[str, Callable[[Sheet, str], str]] = {
    "job-name": _text("name"),
    "account": _account,
    "partition": _partition,
    "qos": _qos,
    "time": _time,
    "nodes": _nodes,
    "ntasks": _number("tasks"),
    "ntasks-per-node": _number("tasks_per_node"),
    "tasks-per-node": _number("tasks_per_node"),
    "ntasks-per-gpu": _number("tasks_per_gpu"),
    "cpus-per-task": _number("cpus_per_task"),
    "cpus-per-gpu": _number("cpus_per_gpu"),
    "gres": _gres,
    "gpus": _gpus("gpus"),
    "gpus-per-node": _gpus("gpus_per_node"),
    "gpus-per-task": _gpus("gpus_per_task"),
    "mem": _memory("memory"),
    "mem-per-cpu": _memory("memory_per_cpu"),
    "mem-per-gpu": _memory("memory_per_gpu"),
    "tmp": _tmp,
    "constraint": _constraint,
    "exclude": _exclude,
    "licenses": _licences,
    "exclusive": _exclusive,
    "array": _array,
    "dependency": _dependency,
    "begin": _begin,
    "deadline": _deadline,
    "hold": _hold,
    "requeue": _requeue,
    "no-requeue": _no_requeue,
    "chdir": _text("working_dir"),
    "export": _export,
    "signal": _signal,
    "reservation": _text("booking"),
    "mail-type": lambda sheet, value: mails.take_types(sheet.document, value),
    "mail-user": lambda sheet, value: mails.take_address(sheet.own, value),
    "comment": _text("description"),
    "wckey": _wckey,
    "switches": _switches,
    "wrap": _text("script"),
}

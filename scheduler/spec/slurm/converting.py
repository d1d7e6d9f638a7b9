"""From a script with `#SBATCH` lines to a job, and what became of every option.

Slurm counts tasks, CPUs of a task and GPUs in several ways; here all figures are per node. Nothing
is left out in silence: each option has its remark, and so has what the script itself expects of
Slurm: `srun`, modules and the variables that sbatch sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scheduler.spec import units
from scheduler.spec.slurm.meaning import MEANINGS, Sheet
from scheduler.spec.slurm.names import KNOWN, LEFT_OUT, SHORT
from scheduler.spec.slurm.reading import Given, options_of

TAKEN, CHANGED, HARMLESS, LOST = "taken", "changed", "harmless", "lost"
MAX_REMARKS = 200
_VARIABLE = re.compile(r"\bSLURM_[A-Z0-9_]{1,40}", re.ASCII)
_VARIABLES = {
    "SLURM_ARRAY_TASK_ID": "TRAINYARD_ARRAY_INDEX",
    "SLURM_ARRAY_JOB_ID": "TRAINYARD_ARRAY_ID",
    "SLURM_ARRAY_TASK_COUNT": "TRAINYARD_ARRAY_SIZE",
    "SLURM_JOB_ID": "TRAINYARD_JOB_ID",
    "SLURM_JOBID": "TRAINYARD_JOB_ID",
    "SLURM_JOB_NAME": "TRAINYARD_JOB_NAME",
    "SLURM_NODEID": "NODE_RANK",
    "SLURM_NNODES": "NNODES",
    "SLURM_JOB_NUM_NODES": "NNODES",
    "SLURM_PROCID": "RANK",
    "SLURM_LOCALID": "LOCAL_RANK",
    "SLURM_NTASKS": "WORLD_SIZE",
    "SLURM_RESTART_COUNT": "TRAINYARD_ATTEMPT (which begins with 1)",
}
_PROGRAMS = (
    ("srun", LOST, "is not there; remove it: the script itself is started on each node"),
    ("scontrol", LOST, "is not there; MASTER_ADDR and MASTER_PORT name the first node"),
    ("sbatch", LOST, "is not there; submit with: trainyard submit"),
    ("module", LOST, "works only where the nodes have environment modules"),
)


@dataclass(frozen=True, slots=True)
class Remark:
    """What became of one option, or of a word of the script (`line` 0: of all of it).

    `became` is `taken`, `changed` (something is different), `harmless` (left out, nothing changes)
    or `lost` (left out, look at it).
    """

    line: int
    option: str
    became: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Converted:
    """The job as a document for `parse_spec`, perhaps without a project, and all remarks."""

    document: dict[str, Any]
    remarks: tuple[Remark, ...]

    @property
    def lost(self) -> tuple[Remark, ...]:
        """What the script asked for and the job does not."""
        return tuple(one for one in self.remarks if one.became == LOST)


def convert(
    text: str,
    *,
    models: Sequence[str] = (),
    own: Sequence[str] = (),
    now: datetime | None = None,
) -> Converted:
    """Read a script as sbatch would; `models` are the GPU models there are, to find a type in, and
    `own` the mail address and name of who submits. Times that count from the submit count from
    `now`."""
    given, body = options_of(text.lstrip("\ufeff"), KNOWN, SHORT)
    sheet = Sheet(own=tuple(filter(None, own)), now=now or datetime.now(UTC))
    remarks = [_remark(one, sheet) for one in given]
    remarks += _settle(sheet, models)
    remarks += _words_of(body)
    document = {name: value for name, value in sheet.document.items() if value != []}
    if any(line.strip() and not line.lstrip().startswith("#") for line in body.splitlines()):
        document["script"] = body
    document.setdefault("name", "job")
    if document.get("nodes", 1) != 1 and not any(one.option == "srun" for one in remarks):
        words = "the script is started on each node, NODE_RANK 0, 1, …; sbatch starts it once"
        remarks.append(Remark(0, "nodes", CHANGED, words))
    return Converted(document, tuple(remarks[:MAX_REMARKS]))


def _remark(one: Given, sheet: Sheet) -> Remark:
    if one.fault:
        return Remark(one.line, one.written, LOST, one.fault)
    if one.name in LEFT_OUT:
        why = LEFT_OUT[one.name][1]
        return Remark(one.line, one.written, HARMLESS if why[0] == "-" else LOST, why.lstrip("-"))
    try:
        words = MEANINGS[one.name](sheet, one.value or "")
    except ValueError as refused:
        return Remark(one.line, one.written, LOST, str(refused))
    return Remark(one.line, one.written, CHANGED if words else TAKEN, words)


def _settle(sheet: Sheet, models: Sequence[str]) -> Iterator[Remark]:
    """Figures of tasks, GPUs and all nodes together to figures of one node."""
    found, document = sheet.figures, sheet.document
    nodes = _nodes(sheet)
    yield from _cards(sheet, nodes, models)
    cards = document.get("gpus_per_node", 0)
    tasks = found.get("tasks_per_node") or -(-found.get("tasks", 1) // nodes)
    if "tasks_per_gpu" in found and cards:
        tasks = max(tasks, found["tasks_per_gpu"] * cards)
    cpus = tasks * found.get("cpus_per_task", 1)
    if "cpus_per_gpu" in found and cards:
        cpus = found["cpus_per_gpu"] * cards
    if cpus > 1:
        document["cpus"] = cpus
    memory = found.get("memory") or found.get("memory_per_cpu", 0) * cpus
    memory = memory or found.get("memory_per_gpu", 0) * cards
    if memory:
        document["memory"] = units.format_size_mib(memory)
    if tasks > 1 and tasks == cards:
        document["processes"] = "gpu"
        yield Remark(0, "tasks", CHANGED, f"{tasks} a node: one process for each GPU")
    elif tasks > 1:
        words = f"{tasks} a node: one process is started on each node; start the others yourself"
        yield Remark(0, "tasks", CHANGED, words)
    if document.get("tier") == "production" and document.get("preemptible"):
        del document["preemptible"]
        words = "production jobs are not stopped for others unless they say preemptible: true"
        yield Remark(0, "--requeue", CHANGED, words)


def _nodes(sheet: Sheet) -> int:
    """The nodes to share things out over: the fewest that are asked for, or those that follow from
    all tasks or GPUs and how many a node has, as sbatch counts them."""
    found = sheet.figures
    if "gpus" in found and "gpus_per_task" in found:
        found.setdefault("tasks", max(1, found["gpus"] // found["gpus_per_task"]))
    if "nodes" in found:
        return found["nodes"]
    nodes = 1
    for name in ("tasks", "gpus"):
        if name in found and f"{name}_per_node" in found:
            nodes = max(nodes, -(-found[name] // found[f"{name}_per_node"]))
    if nodes > 1:
        sheet.document["nodes"] = nodes
    return nodes


def _cards(sheet: Sheet, nodes: int, models: Sequence[str]) -> Iterator[Remark]:
    found, document = sheet.figures, sheet.document
    cards = found.get("gpus_per_node")
    if cards is None and "gpus_per_task" in found:
        tasks = found.get("tasks_per_node") or -(-found.get("tasks", 1) // nodes)
        cards = found["gpus_per_task"] * tasks
    if "gpus" in found:
        cards = cards or -(-found["gpus"] // nodes)
        if cards * nodes != found["gpus"]:
            words = f"{found['gpus']} do not spread evenly over {nodes} nodes: {cards} on each"
            yield Remark(0, "--gpus", CHANGED, words)
        elif ".." in str(document.get("nodes", "")):
            words = f"{cards} on each node: {found['gpus']} on {nodes}, more on more nodes"
            yield Remark(0, "--gpus", CHANGED, words)
    # Slurm gives no GPU that is not asked for; the default here is one.
    document["gpus_per_node"] = cards or 0
    if sheet.gpu_type and cards:
        wanted = sheet.gpu_type.replace("_", " ").casefold()
        fitting = [model for model in models if wanted in model.casefold()]
        if len(fitting) == 1:
            document["gpu_model"] = fitting[0]
            return
        known = ", ".join(models[:8]) or "not known"
        words = f"names no GPU model here; choose one: {known}"
        yield Remark(0, f"GPU type {sheet.gpu_type}", LOST, words)


def _words_of(body: str) -> Iterator[Remark]:
    """What the script expects of Slurm, each thing once."""
    told = set()
    for line in body.splitlines():
        if line.lstrip().startswith("#"):
            continue
        for name in _VARIABLE.findall(line):
            if name not in told:
                told.add(name)
                ours = _VARIABLES.get(name)
                words = f"is not set here; use {ours}" if ours else "is not set here"
                yield Remark(0, f"${name}", LOST, words)
        for program, became, words in _PROGRAMS:
            if program not in told and re.search(rf"(?:^|[\s;&|(]){program}\s", f"{line} "):
                told.add(program)
                yield Remark(0, program, became, words)

"""What a person reads when a value was refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from scheduler.spec import units
from scheduler.spec.problems import SpecProblem, given

# Written by the server alone; named so that the refusal can say more than "unknown".
FORBIDDEN_FIELDS = frozenset(
    {"owner", "state", "fence", "team_id", "team", "id", "cost", "submitted_at", "owner_id"}
)
# Jobs see what their node shows them. Who asks for more is told so, and it is put on record.
MOUNTS = frozenset({"mounts", "volumes"})
_UNKNOWN = "is not a field of a job; remove it or check the spelling"
_IMAGES = frozenset({"image", "container", "docker", "container_image"})
# What other schedulers and people call our fields.
_ELSEWHERE: Mapping[str, str] = {
    other: ours
    for ours, others in {
        "gpus_per_node": "gpu gpus ngpus num_gpus gpu_count gres",
        "gpu_model": "gpu_type flavor flavour accelerator",
        "nodes": "num_nodes nnodes node_count replicas",
        "cpus": "cpu cores cpus_per_task cpus_per_node",
        "memory": "mem ram mem_per_node",
        "time_limit": "time walltime timeout duration max_time",
        "pool": "partition queue cluster",
        "tier": "priority qos",
        "command": "cmd run entrypoint args",
        "env": "environment variables envs",
        "depends_on": "dependency dependencies after",
        "working_dir": "workdir cwd chdir",
        "retries": "retry max_retries requeue",
        "code.git_url": "git repo repository",
        "code.folder": "folder",
        "begin": "start_after not_before start_time",
        "finish_by": "deadline",
        "labels": "tags annotations",
        "hold": "held suspend",
    }.items()
    for other in others.split()
}
_FIELDS = (
    *sorted(set(_ELSEWHERE.values())),
    *("name", "project", "script", "description", "secrets", "checkpoint_dir", "array", "notify"),
    *("processes", "exclusive", "constraints", "datasets", "max_cost", "min_runtime", "group"),
    *("retry_rules", "exclude_nodes", "preemptible", "licences", "scratch", "gpu_memory"),
)
# As alike as a slip of the hand leaves two words.
_CLOSE = 0.8
_DURATIONS = frozenset(
    {"time_limit", "min_runtime", "fallback_after", "disconnect_grace", "grace", "idle_stop"}
)
_SIZES = frozenset({"memory", "gpu_memory", "scratch"})
# What kind of value a field takes, by the kind of pydantic's complaint.
_KINDS: Mapping[str, str] = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "names with their values",
    "model_type": "names with their values",
    "model_attributes_type": "names with their values",
    "tuple_type": "a list",
    "list_type": "a list",
}
_OWN = re.compile(r"([A-Za-z_.]+)\|(.+)", re.DOTALL)


def unknown_words(name: str) -> str:
    """What to say of a name that no field has: the one that is meant, if other programs call it so
    or it is spelt nearly so."""
    if name.lower() in _IMAGES:
        return "is not for jobs: programs run with what their node has installed; remove it"
    close = get_close_matches(name.lower(), _FIELDS, n=1, cutoff=_CLOSE)
    if meant := _ELSEWHERE.get(name.lower(), "".join(close)):
        return f"is not a field of a job; write {meant}, or remove it"
    return _UNKNOWN


def problem_of(item: Any) -> SpecProblem:
    """A problem as pydantic reports it, in our words; a field's own words come as `field|words`."""
    # An item of a list is named by its list: nobody counts arguments from zero.
    path = ".".join(part for part in item["loc"] if isinstance(part, str))
    kind, message = item["type"], str(item["msg"])
    context = item.get("ctx") or {}
    if kind == "extra_forbidden":
        name = path.rsplit(".", 1)[-1]
        if name in FORBIDDEN_FIELDS:
            words = "is set by Trainyard and must not be sent; remove it"
            return SpecProblem(path, words, "forbidden_field")
        if name in MOUNTS:
            words = "is not for jobs: their node decides what they see; remove it"
            return SpecProblem(path, words, "forbidden_field")
        # What is meant by a field of a part is nothing that all jobs have.
        words = unknown_words(name) if name == path else _UNKNOWN
        return SpecProblem(path, words, "unknown_field")
    if kind == "string_unicode":
        return SpecProblem(path, "holds a lone surrogate, which is no character; remove it")
    if kind == "missing":
        return SpecProblem(path, "is required")
    if kind == "value_error":
        message = str(context.get("error", message))
        if own := _OWN.fullmatch(message):
            return SpecProblem(own[1], own[2])
        return SpecProblem(path or "job", message)
    # The values of variables may be secrets: they are not repeated.
    sent = "" if path.startswith("env") else f", not {given(item.get('input'))}"
    if kind == "literal_error":
        return SpecProblem(path, f"must be one of {context.get('expected')}{sent}")
    if kind in _KINDS:
        return SpecProblem(path or "job", f"must be {_KINDS[kind]}{sent}")
    if kind in ("greater_than_equal", "less_than_equal"):
        word, bound = ("least", "ge") if kind == "greater_than_equal" else ("most", "le")
        limit, found = (_written(path, number) for number in (context[bound], item["input"]))
        return SpecProblem(path, f"must be at {word} {limit}, not {found}")
    return SpecProblem(path or "job", message[:1].lower() + message[1:])


def _written(path: str, number: Any) -> str:
    """A bound as people write the values of this field."""
    name = path.rpartition(".")[2]
    if not isinstance(number, int) or not 0 <= number < 2**63:
        return given(number)
    if name in _DURATIONS:
        return units.format_duration(number)
    return units.format_size_mib(number) if name in _SIZES else str(number)

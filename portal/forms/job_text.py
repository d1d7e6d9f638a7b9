"""A job spec as the composer's fields hold it: what is shown in them, and lines of pairs."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Mapping
from typing import Any

from scheduler.conf import load_conf
from scheduler.spec import JobSpec, units
from scheduler.spec.lines import in_one_line
from scheduler.spec.parts import SessionSpec
from scheduler.spec.retrying.rules import write_lines
from scheduler.spec.values import format_milli

KINDS = (
    ("", "Job: on one node, as a gang or as an array, until its program ends"),
    ("shell", "Session: a shell in the browser"),
    ("jupyter", "Session: Jupyter Lab"),
    ("vscode", "Session: VS Code of a folder"),
    ("tensorboard", "Session: TensorBoard of a folder"),
    ("command", "Session: a program of mine that serves pages"),
)
# By part of the spec: its fields, and the form fields that hold them.
GROUPED: Mapping[str, Mapping[str, str]] = {
    "code": {"folder": "folder", "git_url": "git_url", "git_ref": "git_ref"},
    "stop": {"signal": "signal", "grace": "grace"},
    "topology": {"level": "topology_level", "mode": "topology_mode"},
    "array": {"range": "array_range", "max_parallel": "array_parallel"},
    "session": {"app": "session_app", "idle_stop": "session_idle"},
}
PLAIN = (
    "name", "description", "project", "pool", "other_pools", "tier", "nodes", "node_sizes",
    "gpus_per_node", "gpu_milli", "gpu_memory", "gpu_model", "gpu_models", "fallback_after",
    "isolation", "cpus", "memory", "scratch", "licences", "constraints", "exclude_nodes",
    "datasets", "time_limit", "max_cost", "begin", "finish_by", "finish_by_policy", "depends_on",
    "group", "group_policy", "booking", "preemptible", "min_runtime", "command", "script",
    "processes", "working_dir", "checkpoint_dir", "retries", "retry_rules", "notify", "secrets",
    "disconnect_grace",
)  # fmt: skip
SWITCHES = ("hold", "share_cards", "exclusive")
PAIRS = ("env", "labels")
_DURATIONS = ("time_limit", "fallback_after", "min_runtime", "disconnect_grace")
_SIZES = ("memory", "gpu_memory", "scratch")


def read_pairs(text: str) -> dict[str, str]:
    """`NAME=value` lines to a dictionary; raises ValueError that names the line.

    A value in double quotes is read as a JSON string, so that line ends and outer spaces survive.
    """
    pairs: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, equals, value = line.strip().partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name:
            raise ValueError(f"Line {number}: write it as NAME=value.")
        if name in pairs:
            raise ValueError(f"Line {number}: {name[:40]} is set twice; keep one of them.")
        if value.startswith('"'):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError(f"Line {number}: the quotes do not close.") from None
        pairs[name] = str(value)
    return pairs


def write_pairs(pairs: Mapping[str, str]) -> str:
    """The lines that `read_pairs` turns back into `pairs`."""
    return "\n".join(
        f"{name}={value if _is_plain(value) else json.dumps(value)}"
        for name, value in pairs.items()
    )


def _is_plain(value: str) -> bool:
    return value == value.strip() and not value.startswith('"') and len(value.splitlines()) <= 1


def blank_initial() -> dict[str, Any]:
    """What an empty form shows: the spec's own defaults, spelled as people write them."""
    defaults = {
        name: field.default
        for name, field in JobSpec.model_fields.items()
        if not field.is_required() and field.default_factory is None
    }
    initial = {key: _spelt(key, defaults[key]) for key in PLAIN if key in defaults}
    stop, topology = defaults["stop"], defaults["topology"]
    return initial | {
        "command": "",
        "signal": stop.signal,
        "grace": units.format_duration(stop.grace),
        "topology_level": topology.level,
        "topology_mode": topology.mode,
        "session_app": "",
        "session_idle": units.format_duration(SessionSpec.model_fields["idle_stop"].default),
        "nonce": uuid.uuid4().hex,
    }


def blank_session() -> dict[str, Any]:
    """What an empty form of a session shows, where that differs: a shell, as the CLI starts it."""
    conf = load_conf()
    return {
        "session_app": "shell",
        "session_idle": units.format_duration(min(1800, conf.session_idle_s)),
        "cpus": 2,
        "memory": "4GiB",
        "time_limit": units.format_duration(min(7200, conf.session_longest_s)),
    }


def initial_from(document: Mapping[str, Any]) -> dict[str, Any]:
    """Prefill from a spec document, as `JobSpec.document` gives it."""
    initial = blank_initial()
    given = {key: document[key] for key in PLAIN if document.get(key) not in (None, "")}
    initial |= {key: _spelt(key, value) for key, value in given.items()}
    initial["command"] = shlex.join(document.get("command") or ())
    for part, fields in GROUPED.items():
        held = document.get(part) or {}
        initial |= {fields[name]: value for name, value in held.items() if name in fields}
    for field in ("grace", "session_idle"):
        if isinstance(initial[field], int):
            initial[field] = units.format_duration(initial[field])
    initial |= {field: bool(document.get(field)) for field in SWITCHES}
    return initial | {field: write_pairs(document.get(field) or {}) for field in PAIRS}


def _spelt(field: str, value: Any) -> Any:
    """A value of a document as people write it; what is not asked for is left empty."""
    if field == "preemptible":
        return "" if value is None else str(bool(value)).lower()
    if field == "nodes":
        return value.written() if hasattr(value, "written") else value
    if field == "gpu_milli" and isinstance(value, int):
        return "" if value == 1000 else format_milli(value)
    if field in _DURATIONS and isinstance(value, int):
        return units.format_duration(value) if value else ""
    if field in _SIZES and isinstance(value, int):
        return units.format_size_mib(value) if value else ""
    if field == "retry_rules":
        return write_lines(value)
    if field != "command" and isinstance(value, (list, tuple, dict)):
        return in_one_line(value)
    return "" if value is None else value

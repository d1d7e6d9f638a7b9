"""A job spec as people take it elsewhere: YAML, and the line that submits it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

import yaml

from scheduler.spec import JobSpec
from scheduler.spec.lines import in_one_line
from scheduler.spec.partial import completed
from scheduler.spec.retrying.rules import write_lines

LINE_END = " \\\n  "


class _Dumper(yaml.SafeDumper):
    """Scripts as blocks, everything else plain."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_of(spec: JobSpec, template: Mapping[str, Any] | None = None) -> str:
    """The spec as YAML; reading it again gives the same spec, also laid over what the document of
    a `template` says."""
    return _written(spec.readable(_taken_back(spec, template or {})))


def _taken_back(spec: JobSpec, template: Mapping[str, Any]) -> set[str]:
    """Fields that a template says otherwise: left out they would be the template's."""
    whole = spec.document()
    return {name for name, value in template.items() if name in whole and whole[name] != value}


def diff_of(old: str, new: str, context: int = 2) -> list[tuple[str, str]]:
    """What changed between two texts: `add`, `del` or nothing, and the line with its sign."""
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=context))
    classes = {"+": "add", "-": "del"}
    # The first two lines name files; a heading of line numbers says nothing here.
    shown = [line for line in lines[2:] if not line.startswith("@@")]
    return [(classes.get(line[0], ""), f"{line[0]} {line[1:]}") for line in shown]


def template_text(document: Mapping[str, Any]) -> str:
    """What a template says of a job, as YAML; defaults that it names are left out."""
    if not document:
        return ""
    shown = JobSpec.model_validate(completed(document)).readable()
    kept = {name: value for name, value in shown.items() if name in document}
    return _written(kept) if kept else ""


def _written(shown: Mapping[str, Any]) -> str:
    return yaml.dump(dict(shown), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


# Said by an option only where they differ from what the spec or the template has.
_OPTIONS = (
    ("pool", "--pool"),
    ("other_pools", "--other-pools"),
    ("tier", "--tier"),
    ("node_sizes", "--node-sizes"),
    ("gpu_milli", "--gpu-part"),
    ("gpu_memory", "--gpu-memory"),
    ("gpu_model", "--gpu-model"),
    ("gpu_models", "--gpu-models"),
    ("fallback_after", "--fallback-after"),
    ("isolation", "--isolation"),
    ("cpus", "--cpus"),
    ("memory", "--memory"),
    ("scratch", "--scratch"),
    ("licences", "--licences"),
    ("constraints", "--constraints"),
    ("exclude_nodes", "--exclude-nodes"),
    ("datasets", "--datasets"),
    ("topology", "--topology"),
    ("begin", "--begin"),
    ("max_cost", "--max-cost"),
    ("finish_by", "--finish-by"),
    ("finish_by_policy", "--finish-by-policy"),
    ("depends_on", "--depends-on"),
    ("group", "--group"),
    ("group_policy", "--group-policy"),
    ("array", "--array"),
    ("booking", "--booking"),
    ("min_runtime", "--min-runtime"),
    ("retries", "--retries"),
    ("retry_rules", "--retry-on"),
    ("notify", "--notify"),
    ("processes", "--processes"),
    ("working_dir", "--workdir"),
    ("checkpoint_dir", "--checkpoint-dir"),
    ("secrets", "--secrets"),
    ("disconnect_grace", "--disconnect-grace"),
)
_SWITCHES = ("share_cards", "exclusive", "preemptible")
# Given once for each of its values.
_REPEATED = ("depends_on", "retry_rules")
_ALWAYS = ("project", "name", "nodes", "gpus_per_node", "time_limit", "command")


def command_line_of(
    spec: JobSpec, reference: str = "", template: Mapping[str, Any] | None = None
) -> str:
    """The `trainyard submit` that asks for the same; what no option can say goes by the file.

    `reference` names the template that it starts from, and `template` is what that says.
    """
    held = f" --template {reference}" if reference else ""
    back = _taken_back(spec, template or {})
    shown = spec.readable(back)
    if not spec.topology.level and "topology" not in back:
        # How close without saying to what asks for nothing, and no option says it.
        shown.pop("topology", None)
    if "session" in shown:
        return (not reference and _session_line(spec)) or f"trainyard submit{held} job.yaml"
    if (
        any(shown.get(field) for field in ("script", "labels", "description", "stop"))
        or any("\n" in value for value in spec.env.values())
        or any(isinstance(one.job, str) for one in spec.depends_on)
        or any(not _has_an_option(field, shown[field]) for field in back)
    ):
        return f"trainyard submit{held} job.yaml"
    lines = [
        # As wide as the panel beside the form: what a browser breaks again nobody can read.
        f"trainyard submit{held}",
        f"--project {spec.project}",
        f"--name {shlex.quote(spec.name)}",
        f"--nodes {spec.nodes.written()} --gpus {spec.gpus_per_node} --time {shown['time_limit']}",
    ]
    lines += [
        f"{option} {shlex.quote(_in_line(field, one))}"
        for field, option in _OPTIONS
        if field in back
        or (field in shown and getattr(spec, field) != JobSpec.model_fields[field].default)
        for one in (shown[field] if field in _REPEATED else (shown[field],))
    ]
    lines += [
        f"--{field.replace('_', '-')} {shlex.quote(value)}"
        for field, value in spec.code.model_dump().items()
        if value
    ]
    lines += [f"--env {shlex.quote(f'{name}={value}')}" for name, value in spec.env.items()]
    lines += [
        f"--{'' if getattr(spec, field) else 'no-'}{field.replace('_', '-')}"
        for field in _SWITCHES
        if field in shown
    ]
    lines += ["--hold"] if spec.hold else []
    return LINE_END.join([*lines, f"-- {shlex.join(spec.command)}"])


def _in_line(field: str, value: Any) -> str:
    return write_lines([value]) if field == "retry_rules" else in_one_line(value)


def _has_an_option(field: str, value: Any) -> bool:
    """Whether an option can say this: an empty one counts as not given."""
    if field in _SWITCHES:
        return value is not None
    if field in ("topology", "code"):
        return any(value[part] for part in value if part != "mode")
    if field == "hold":
        return bool(value)
    known = field == "env" or field in _ALWAYS or field in dict(_OPTIONS)
    return known and value not in (None, "", [], {})


# What `trainyard session start` has options for.
_OF_SESSIONS = frozenset(
    {"apiVersion", "kind", "name", "project", "pool", "gpus_per_node", "cpus", "memory"}
    | {"time_limit", "session", "command"}
)


def _session_line(spec: JobSpec) -> str:
    """The line that starts this session; empty if its options do not say all of it."""
    shown = spec.readable()
    if spec.session is None or shown.keys() - _OF_SESSIONS:
        return ""
    lines = [
        f"trainyard session start {spec.session.app}",
        f"--project {spec.project}",
        f"--name {shlex.quote(spec.name)}",
        *([f"--pool {spec.pool}"] if spec.pool else []),
        f"--gpus {spec.gpus_per_node} --cpus {spec.cpus}",
        f"--memory {shown['memory']}",
        f"--time {shown['time_limit']} --idle-stop {shown['session']['idle_stop']}",
    ]
    return LINE_END.join([*lines, f"-- {shlex.join(spec.command)}"] if spec.command else lines)

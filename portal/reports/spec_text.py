"""A job spec as people take it elsewhere: YAML, and the line that submits it."""

from __future__ import annotations

import shlex

import yaml

from scheduler.spec import JobSpec, units

LINE_END = " \\\n  "


class _Dumper(yaml.SafeDumper):
    """Scripts as blocks, everything else plain."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_of(spec: JobSpec) -> str:
    """The spec as YAML; reading it again gives the same spec."""
    return yaml.dump(
        spec.readable(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def command_line_of(spec: JobSpec) -> str:
    """The `trainyard submit` that asks for the same; a script goes by a file."""
    parts = ["trainyard submit", f"--project {spec.project}", f"--name {shlex.quote(spec.name)}"]
    if spec.script or spec.env or spec.labels or spec.code.folder or spec.code.git_url:
        return "trainyard submit job.yaml"
    if spec.pool:
        parts.append(f"--pool {spec.pool}")
    parts.append(f"--nodes {spec.nodes} --gpus {spec.gpus_per_node}")
    if spec.gpu_model:
        parts.append(f"--gpu-model {shlex.quote(spec.gpu_model)}")
    parts.append(f"--time {units.format_duration(spec.time_limit)}")
    return LINE_END.join([*parts, f"-- {shlex.join(spec.command)}"])

"""The composer: one form field per field of the job spec, checked by the spec itself.

The form only carries text. `clean` hands the whole document to `parse_spec` and pins each problem
to the field it names, so that form, API and CLI refuse the same things in the same words.
"""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, cast

from django import forms

from scheduler.spec import JobSpec, SpecInvalid, parse_spec, units
from scheduler.spec.schema import STOP_SIGNALS

TIERS = (
    ("exploratory", "Exploratory: starts last"),
    ("normal", "Normal"),
    ("urgent", "Urgent"),
    ("production", "Production: starts first"),
)
PROCESSES = (
    ("node", "One process per node (torchrun style)"),
    ("gpu", "One process per GPU (LOCAL_RANK set)"),
)
# Where the name of a spec field is not the name of the form field that holds it.
FIELD_OF_PATH = {
    "code": "folder",
    "code.folder": "folder",
    "code.git_url": "git_url",
    "code.git_ref": "git_ref",
    "stop": "signal",
    "stop.signal": "signal",
    "stop.grace": "grace",
}
GROUPED = {"code": ("folder", "git_url", "git_ref"), "stop": ("signal", "grace")}
PLAIN = (
    "name", "description", "project", "pool", "tier", "nodes", "gpus_per_node", "gpu_model",
    "cpus", "memory", "time_limit", "command", "script", "processes", "working_dir",
    "checkpoint_dir", "retries",
)  # fmt: skip
PAIRS = ("env", "labels")


def _text(label: str, hint: str = "", *, required: bool = False, **attrs: Any) -> forms.CharField:
    attrs.setdefault("autocomplete", "off")
    return forms.CharField(
        label=label, help_text=hint, required=required, widget=forms.TextInput(attrs=attrs)
    )


def _number(label: str, hint: str = "", *, low: int = 1, required: bool = False) -> forms.CharField:
    # Text on purpose: the spec decides what a whole number is, and says it in its own words.
    widget = forms.NumberInput(attrs={"min": low, "step": 1, "inputmode": "numeric"})
    return forms.CharField(label=label, help_text=hint, required=required, widget=widget)


def _lines(label: str, hint: str = "", rows: int = 3, placeholder: str = "") -> forms.CharField:
    attrs = {"class": "mono", "rows": rows, "spellcheck": "false", "placeholder": placeholder}
    return forms.CharField(
        label=label,
        help_text=hint,
        required=False,
        strip=False,
        widget=forms.Textarea(attrs=attrs),
    )


class JobForm(forms.Form):
    """A job as asked for. After `is_valid`, `spec` is the checked JobSpec."""

    name = _text("Name", required=True, maxlength=128, placeholder="digits-baseline")
    project = forms.ChoiceField(label="Project", choices=())
    description = _text("Description", "What it is for; shown on the job's page.")
    command = _lines("Command", "Split like a shell does, but no shell runs it.", rows=2)
    script = _lines("Script", "Instead of a command: run by its first line (#!) or by sh.", rows=6)
    folder = _text("Code folder", "On the node; run in place.", placeholder="/data/vision/digits")
    git_url = _text("Git URL", "Fetched by the node over https.", placeholder="https://…")
    git_ref = _text("Git ref", "Branch, tag or commit.", placeholder="main")
    nodes = _number("Nodes", required=True)
    gpus_per_node = _number("GPUs per node", required=True)
    gpu_model = forms.ChoiceField(label="GPU model", choices=(), required=False)
    cpus = _number("CPUs per node", required=True)
    memory = _text("Memory per node", "Like 16GiB.", required=True)
    pool = forms.ChoiceField(label="Pool", choices=(), required=False)
    tier = forms.ChoiceField(label="Tier", choices=TIERS)
    time_limit = _text("Time limit", "Like 90m, 2h or 1d12h.", required=True)
    retries = _number("Retries", "After a failure of the program.", low=0)
    processes = forms.ChoiceField(label="Processes", choices=PROCESSES)
    env = _lines("Environment", 'One NAME=value a line; "…" keeps \\n and spaces.')
    labels = _lines("Labels", "One name=value a line.", rows=2)
    working_dir = _text("Working folder", "Empty: a fresh folder.", placeholder="/data/vision")
    checkpoint_dir = _text("Checkpoint folder", "Empty: one per job, kept over attempts.")
    signal = forms.ChoiceField(label="Stop signal", choices=[(s, s) for s in STOP_SIGNALS])
    grace = _text("Time to stop", "Before it is killed; at most 10m.")
    hold = forms.BooleanField(label="Hold it: do not start until released", required=False)
    nonce = forms.CharField(required=False, max_length=128, widget=forms.HiddenInput)
    cloned_from = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)

    spec: JobSpec

    def __init__(
        self,
        *args: Any,
        projects: Iterable[tuple[str, str]],
        pools: Iterable[tuple[str, str]],
        models: Iterable[tuple[str, str]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._offer("project", projects)
        self._offer("pool", pools)
        self._offer("gpu_model", [("", "Any model"), *models])

    def _offer(self, field: str, choices: Iterable[tuple[str, str]]) -> None:
        """Set the choices; a value from a clone that is gone stays visible, and is refused."""
        shown = list(choices)
        given = str(self.initial.get(field, "") or "")
        if given and given not in dict(shown):
            shown.append((given, f"{given} (not available)"))
        cast(forms.ChoiceField, self.fields[field]).choices = shown

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        document = self._document(cleaned)
        if not {"command", "script"} & document.keys() and not self.has_error("command"):
            self.add_error("command", "Give a command, or a script below.")
        try:
            self.spec = parse_spec(document)
        except SpecInvalid as refused:
            self.add_problems(refused)
        return cleaned

    def _document(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """The spec document; what was left empty is left out, so that its default holds."""
        document: dict[str, Any] = {}
        for field in PLAIN:
            value = str(cleaned.get(field, "")).replace("\r\n", "\n")
            if value.strip():
                document[field] = value if field == "script" else value.strip()
        for part, fields in GROUPED.items():
            group = {f: cleaned[f].strip() for f in fields if str(cleaned.get(f, "")).strip()}
            if group:
                document[part] = group
        for field in PAIRS:
            try:
                pairs = read_pairs(str(cleaned.get(field, "")))
            except ValueError as error:
                self.add_error(field, str(error))
            else:
                document |= {field: pairs} if pairs else {}
        if cleaned.get("hold"):
            document["hold"] = True
        return document

    def add_problems(self, refused: SpecInvalid) -> None:
        """Pin each problem of a spec, also one that a service found, to the field it names."""
        for problem in refused.problems:
            field = FIELD_OF_PATH.get(problem.field, problem.field.partition(".")[0])
            if field not in self.fields:
                self.add_error(None, f"{problem.field} {problem.message}")
            elif not self.has_error(field):
                self.add_error(field, _sentence(problem.message))


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:] + ("" if message.endswith((".", "?")) else ".")


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
    initial = {key: defaults[key] for key in PLAIN if key in defaults}
    stop = defaults["stop"]
    return initial | {
        "command": "",
        "memory": units.format_size_mib(defaults["memory"]),
        "time_limit": units.format_duration(defaults["time_limit"]),
        "signal": stop.signal,
        "grace": units.format_duration(stop.grace),
        "nonce": uuid.uuid4().hex,
    }


def initial_from(document: Mapping[str, Any]) -> dict[str, Any]:
    """Prefill from a spec document, as `JobSpec.document` gives it."""
    initial = blank_initial()
    initial |= {key: document[key] for key in PLAIN if document.get(key) not in (None, "")}
    initial["command"] = shlex.join(document.get("command") or ())
    if isinstance(document.get("memory"), int):
        initial["memory"] = units.format_size_mib(document["memory"])
    if isinstance(document.get("time_limit"), int):
        initial["time_limit"] = units.format_duration(document["time_limit"])
    for part in GROUPED:
        initial |= document.get(part) or {}
    if isinstance(initial["grace"], int):
        initial["grace"] = units.format_duration(initial["grace"])
    return initial | {field: write_pairs(document.get(field) or {}) for field in PAIRS}

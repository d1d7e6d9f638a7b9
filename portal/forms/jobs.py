"""The composer: one form field per field of the job spec, checked by the spec itself.

The form only carries text. `clean` hands the whole document to `parse_spec` and pins each problem
to the field it names, so that form, API and CLI refuse the same things in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from django import forms

from portal.forms.job_text import GROUPED, KINDS, PAIRS, PLAIN, SWITCHES, blank_initial, read_pairs
from portal.forms.labels import in_labels, labels_of
from scheduler.spec import JobSpec, SpecInvalid, parse_spec
from scheduler.spec.schema import STOP_SIGNALS
from scheduler.states import Tier

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
ISOLATION = (
    ("any", "Any"),
    ("timeslice", "Time slices or stronger"),
    ("mps", "Limited shares (MPS) or stronger"),
    ("mig", "Hardware slices (MIG)"),
)
TOPOLOGY = (("", "Anywhere"), ("rack", "One rack"), ("block", "One block"))
TOPOLOGY_MODES = (
    ("required", "Wait for it"),
    ("preferred", "If it costs no time"),
    ("balanced", "Evenly over several"),
)
FINISH_POLICIES = (("keep", "It goes on all the same"), ("cancel", "It is cancelled"))
GROUP_POLICIES = (("wait", "Are waited for"), ("stop", "Are stopped"), ("beside", "Go on beside"))
PREEMPTIBLE = (("", "As its tier says"), ("true", "May be stopped"), ("false", "Never stopped"))
# Where the name of a spec field is not the name of the form field that holds it.
FIELD_OF_PATH = {part: next(iter(fields.values())) for part, fields in GROUPED.items()} | {
    f"{part}.{name}": held for part, fields in GROUPED.items() for name, held in fields.items()
}


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

    session_app = forms.ChoiceField(
        label="Kind", choices=KINDS, required=False, widget=forms.RadioSelect
    )
    session_idle = _text("Stop when idle for", "Nobody uses it, and its GPUs rest. Like 30m.")
    name = _text("Name", required=True, maxlength=128, placeholder="digits-baseline")
    project = forms.ChoiceField(label="Project", choices=())
    description = forms.CharField(
        label="Description",
        help_text="What it is for; shown on the job's page.",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    command = _lines("Command", "Split as a shell does; no shell runs it.", 2, "python train.py")
    script = _lines(
        "Script", "Instead of a command: run by its first line (#!) or by sh.", 6, "#!/bin/sh"
    )
    folder = _text("Code folder", "On the node; run in place.", placeholder="/data/vision/digits")
    git_url = _text("Git URL", "Fetched by the node over https.", placeholder="https://…")
    git_ref = _text("Git ref", "Branch, tag or commit; retries keep it.", placeholder="main")
    nodes = _text("Nodes", "Or a range: 2..8.", required=True)
    gpus_per_node = _number("GPUs per node", "0 for none.", low=0, required=True)
    gpu_model = forms.ChoiceField(label="GPU model", choices=(), required=False)
    cpus = _number("CPUs per node", required=True)
    memory = _text("Memory per node", "Like 16GiB; a number alone is MiB.", required=True)
    pool = forms.ChoiceField(label="Pool", choices=(), required=False)
    other_pools = _text("Also in", "Other pools, if it starts there sooner; the best first.")
    tier = forms.ChoiceField(label="Tier", choices=TIERS)
    time_limit = _text("Time limit", "Like 90m or 1d12h; a number alone is seconds.", required=True)
    max_cost = _text(
        "Highest price",
        "It is stopped before it costs more; budgets in money keep no more for it.",
        placeholder="10.00",
    )
    retries = _number("Retries", "After a failure of the program.", low=0)
    retry_rules = _lines(
        "Retry rules",
        "One a line; the first that meets the end decides, else the number of retries. "
        "log=TEXT comes last.",
        placeholder="exit=75,77:3:wait=1m..10m\nfailure=user_resource:stop",
    )
    notify = _text(
        "Tell me of",
        "start, end, fail, retry, preempt, warn, array; or none. Empty: as your settings say.",
        placeholder="start,end",
    )
    processes = forms.ChoiceField(label="Processes", choices=PROCESSES)
    env = _lines("Environment", 'One NAME=value a line; "…" keeps \\n and spaces.')
    labels = _lines("Labels", "One name=value a line.", rows=2)
    working_dir = _text("Working folder", "Empty: a fresh folder.", placeholder="/data/vision")
    checkpoint_dir = _text("Checkpoint folder", "Empty: one per job, kept over attempts.")
    secrets = _text("Secrets", "Kept under Settings; files for the job.", placeholder="hub-token")
    signal = forms.ChoiceField(label="Stop signal", choices=[(s, s) for s in STOP_SIGNALS])
    grace = _text("Time to stop", "Before it is killed; at most 10m.")
    disconnect_grace = _text(
        "Without the portal", "It runs on so long; empty: as usual here.", placeholder="4h"
    )
    hold = forms.BooleanField(label="Hold it: do not start until released", required=False)
    begin = _text("Not before", "UTC, or with its offset.", placeholder="2026-12-31 08:00")
    finish_by = _text("Finished by", "UTC, or with its offset.", placeholder="2026-12-31 18:00")
    finish_by_policy = forms.ChoiceField(
        label="If it is late",
        choices=FINISH_POLICIES,
        required=False,
        help_text="Cancelled: not started too late, stopped then.",
    )
    depends_on = _text(
        "After other jobs",
        "Or afterany:, afternotok:, singleton; set=4 for all of array 4; aftercorr:set=4, task for "
        "task.",
        placeholder="afterok:12",
    )
    booking = _text("Booking", "Its name or number.")
    group = _text("Group", "Older ones of it that wait are cancelled.", placeholder="eval/main")
    group_policy = forms.ChoiceField(
        label="Its jobs that have begun", choices=GROUP_POLICIES, required=False
    )
    array_range = _text(
        "Once for each index", "It finds its own in TRAINYARD_ARRAY_INDEX.", placeholder="0-99"
    )
    array_parallel = _number("At a time", "Empty or 0: as many as fit.", low=0)
    preemptible = forms.ChoiceField(
        label="Stopping for others", choices=PREEMPTIBLE, required=False
    )
    min_runtime = _text("Runs at least", "Not stopped for others before.", placeholder="30m")
    gpu_milli = _text("Part of a GPU", "Empty: whole GPUs.", placeholder="0.25")
    isolation = forms.ChoiceField(label="Isolation of parts", choices=ISOLATION, required=False)
    gpu_memory = _text("Memory of each GPU", "At least.", placeholder="40GiB")
    gpu_models = _text("Models in order", "Instead of one model; the first is preferred.")
    fallback_after = _text("Next model after", "Waiting so long.", placeholder="2h")
    node_sizes = _text("Numbers of nodes", "Allowed ones of a range.", placeholder="2,4,8")
    scratch = _text("Scratch disk per node", placeholder="200GiB")
    licences = _text("Licences", placeholder="solver=2,viewer")
    constraints = _text("Labels of nodes", placeholder="network=ib,rack!=r3")
    exclude_nodes = _text("Nodes to avoid", placeholder="n7,n12")
    datasets = _text("Data it reads", "Nodes that hold it come first.", placeholder="imagenet")
    topology_level = forms.ChoiceField(label="Close together", choices=TOPOLOGY, required=False)
    topology_mode = forms.ChoiceField(
        label="If it cannot be", choices=TOPOLOGY_MODES, required=False
    )
    share_cards = forms.BooleanField(
        label="Share cards with other teams that allow it too", required=False
    )
    exclusive = forms.BooleanField(label="Whole nodes: nobody else on them", required=False)
    replaces = forms.BooleanField(label="Cancel the job it was cloned from", required=False)
    nonce = forms.CharField(required=False, max_length=128, widget=forms.HiddenInput)
    cloned_from = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    template = forms.CharField(required=False, max_length=110, widget=forms.HiddenInput)

    spec: JobSpec
    blank = blank_initial()
    # Its fields are checked as they are filled in: each has a place for what is wrong with it.
    is_live = True

    def __init__(
        self,
        *args: Any,
        projects: Iterable[tuple[str, str]],
        pools: Iterable[tuple[str, str]],
        models: Iterable[tuple[str, str]],
        highest_tier: Tier = Tier.PRODUCTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._offer("project", projects)
        self._offer_tiers(highest_tier)
        self._offer("pool", pools)
        self._offer("gpu_model", [("", "Any model"), *models])
        # A session is called after what it is.
        self.fields["name"].required = not self["session_app"].value()

    @property
    def cloned_number(self) -> int | None:
        """The job that was cloned, as the page sent it back; None for what is no number."""
        text = str(self["cloned_from"].value() or "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None

    def _offer_tiers(self, highest: Tier) -> None:
        """Up to this one; one above that was sent or cloned stays, and is refused with its why."""
        given = {str(self.data.get("tier", "")), str(self.initial.get("tier", ""))}
        cast(forms.ChoiceField, self.fields["tier"]).choices = [
            (name, words) for name, words in TIERS if Tier[name.upper()] <= highest or name in given
        ]

    def _offer(self, field: str, choices: Iterable[tuple[str, str]]) -> None:
        """Set the choices; a value from a clone that is gone stays visible, and is refused."""
        shown, given = list(choices), str(self.initial.get(field, "") or "")
        if given and given not in dict(shown):
            shown.append((given, f"{given} (not available)"))
        words = {"invalid_choice": "There is no %(value)s for you; choose another."}
        cast(forms.ChoiceField, self.fields[field]).choices = shown
        self.fields[field].error_messages |= words

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        app = cleaned.get("session_app", "")
        if app and not self.has_error("name"):
            cleaned["name"] = cleaned.get("name") or app
        document = self.document(cleaned)
        has_program = bool({"command", "script"} & document.keys())
        if app in ("", "command") and not has_program and not self.has_error("command"):
            self.add_error("command", "Give a command, or a script below.")
        try:
            self.spec = parse_spec(document)
        except SpecInvalid as refused:
            self.add_problems(refused)
        return cleaned

    def document(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """The spec document; what was left empty is left out, so that its default holds."""
        document: dict[str, Any] = {}
        for field in PLAIN:
            value = str(cleaned.get(field, "")).replace("\r\n", "\n")
            if value.strip():
                document[field] = value if field == "script" else value.strip()
        for part, fields in GROUPED.items():
            group = {
                name: cleaned[held].strip()
                for name, held in fields.items()
                if str(cleaned.get(held, "")).strip()
            }
            # How long a session may rest says nothing of a job that is none.
            if group and (part != "session" or "app" in group):
                document[part] = group
        for field in PAIRS:
            try:
                pairs = read_pairs(str(cleaned.get(field, "")))
            except ValueError as error:
                self.add_error(field, str(error))
            else:
                document |= {field: pairs} if pairs else {}
        document |= {field: True for field in SWITCHES if cleaned.get(field)}
        if "preemptible" in document:
            document["preemptible"] = document["preemptible"] == "true"
        return document

    def add_problems(self, refused: SpecInvalid) -> None:
        """Pin each problem of a spec, also one that a service found, to the field it names."""
        for problem in refused.problems:
            field = FIELD_OF_PATH.get(problem.field, problem.field.partition(".")[0])
            if field not in self.fields or self.fields[field].widget.is_hidden:
                self.add_error(None, _sentence(f"{problem.field} {problem.message}"))
            elif not self.has_error(field):
                self.add_error(field, _sentence(in_labels(problem.message, LABELS)))


_LABEL = labels_of(JobForm)
# By the names of the spec, those of its parts with and without the part's own.
LABELS: Mapping[str, str] = _LABEL | {
    name: _LABEL[held]
    for path, held in FIELD_OF_PATH.items()
    for name in (path, path.partition(".")[2])
    if name
}


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:] + ("" if message.endswith((".", "?")) else ".")

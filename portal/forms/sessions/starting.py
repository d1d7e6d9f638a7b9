"""The small form that starts an interactive session."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterable
from typing import Any, cast

from django import forms

from scheduler.spec import JobSpec, SpecInvalid, parse_spec

APPS = (
    ("shell", "Shell"),
    ("jupyter", "Jupyter Lab"),
    ("command", "A program of mine"),
)
_OF_FIELD = {"gpus_per_node": "gpus", "session.idle_stop": "idle_stop"}


class SessionForm(forms.Form):
    """What, where, and for how long."""

    app = forms.ChoiceField(label="What", choices=APPS, widget=forms.RadioSelect, initial="shell")
    command = forms.CharField(
        label="Its command",
        required=False,
        max_length=4096,
        help_text="Of a program of yours: it serves HTTP on the Unix socket "
        "$TRAINYARD_SESSION_SOCKET, below the path $TRAINYARD_SESSION_PATH.",
    )
    name = forms.CharField(label="Name", max_length=128, required=False)
    project = forms.ChoiceField(label="Project")
    pool = forms.ChoiceField(label="Pool")
    gpus = forms.IntegerField(label="GPUs", min_value=0, max_value=64, initial=1)
    cpus = forms.IntegerField(label="CPU cores", min_value=1, max_value=1024, initial=2)
    memory = forms.CharField(label="Memory", max_length=16, initial="4GiB")
    time_limit = forms.CharField(
        label="Longest time",
        max_length=16,
        initial="2h",
        help_text="Then it ends, whatever is open.",
    )
    idle_stop = forms.CharField(
        label="Stop when idle for",
        max_length=16,
        initial="30m",
        help_text="Nobody does anything in it, and its GPUs rest.",
    )
    nonce = forms.CharField(widget=forms.HiddenInput, max_length=64, required=False)

    def __init__(
        self,
        *args: Any,
        projects: Iterable[tuple[str, str]],
        pools: Iterable[tuple[str, str]],
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.spec: JobSpec | None = None
        for field, choices in (("project", projects), ("pool", pools)):
            cast(forms.ChoiceField, self.fields[field]).choices = list(choices)
        self.fields["nonce"].initial = uuid.uuid4().hex

    def clean(self) -> dict[str, Any]:
        """The spec of the job, checked as from every other door."""
        sent = self.cleaned_data
        if self.errors:
            return sent
        document = {
            "name": sent["name"] or sent["app"],
            "project": sent["project"],
            "pool": sent["pool"],
            "gpus_per_node": sent["gpus"],
            "cpus": sent["cpus"],
            "memory": sent["memory"],
            "time_limit": sent["time_limit"],
            "session": {"app": sent["app"], "idle_stop": sent["idle_stop"]},
        }
        if sent["command"].strip():
            document["command"] = sent["command"]
        try:
            self.spec = parse_spec(document)
        except SpecInvalid as refused:
            self.add_problems(refused)
        return sent

    def add_problems(self, refused: SpecInvalid) -> None:
        """Each problem at its field."""
        for problem in refused.problems:
            field = _OF_FIELD.get(problem.field, problem.field)
            if field in self.fields:
                self.add_error(field, problem.message)
            else:
                self.add_error(None, f"{problem.field}: {problem.message}")


def initial_of(spec: JobSpec) -> dict[str, Any]:
    """The form's values for another session like this one."""
    shown = spec.readable()
    assert spec.session is not None
    return {
        "app": spec.session.app,
        "idle_stop": shown["session"]["idle_stop"],
        "name": spec.name,
        "project": spec.project,
        "pool": spec.pool,
        "gpus": spec.gpus_per_node,
        "cpus": spec.cpus,
        "memory": shown["memory"],
        "time_limit": shown["time_limit"],
        "command": shlex.join(spec.command),
    }

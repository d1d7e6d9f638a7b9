"""What rooms below refuse, as a person reads it: by a field's label, with what was given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from django import forms

from scheduler.spec.problems import given
from scheduler.states import is_secret_name

# What a refusal begins with, and each of several after a semicolon.
_HEAD = re.compile(r"(?:^|(?<=; ))([a-z_]+(?:\.[a-z_]+)?)(?=: )")
_WITHIN = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
# A secret's value; addresses of webhooks, whose paths open doors.
_UNSHOWN = frozenset({"value", "url"})
_PART = re.compile(r"[^.\[\]]+")


def in_labels(text: str, labels: Mapping[str, str]) -> str:
    """`gpus_per_node: is too many` as `GPUs per node: is too many`; names within a sentence stand
    in quotes. What has no label stays as it is."""
    headed = _HEAD.sub(lambda found: labels.get(found[1], found[1]), text)
    return _WITHIN.sub(lambda found: _quoted(found[0], labels), headed)


def labels_of(form: forms.Form | type[forms.Form]) -> dict[str, str]:
    """The labels of a form's fields by their names."""
    fields = form.base_fields if isinstance(form, type) else form.fields
    return {name: str(field.label or name) for name, field in fields.items()}


def as_words(name: str) -> str:
    """A field's name where no form has a label for it."""
    return name.replace("_", " ").capitalize()


def _quoted(name: str, labels: Mapping[str, str]) -> str:
    return f"“{labels[name]}”" if name in labels else name


def with_given(message: str, field: str, sent: Mapping[str, object]) -> str:
    """`Give 1 to 5 nodes. Given: 9.`; as it is where it says so already, or nothing was sent.

    `field` may be a path, such as `stop.grace` or `jobs[2].name`. What may be secret stays unsaid.
    """
    parts = _PART.findall(field)
    if not parts or any(part in _UNSHOWN or is_secret_name(part) for part in parts):
        return message
    value = _at(sent, parts)
    if not isinstance(value, str | int | float) or _is_said(str(value), message):
        return message
    end = "" if message.endswith((".", "?", "!")) else "."
    return f"{message}{end} Given: {given(value)}."


def _at(sent: object, parts: Sequence[str]) -> object:
    """The value at a path; None where there is none."""
    for part in parts:
        if isinstance(sent, Mapping):
            sent = sent.get(part)
        elif isinstance(sent, list) and part.isdecimal() and int(part) < len(sent):
            sent = sent[int(part)]
        else:
            return None
    return sent


def _is_said(text: str, message: str) -> bool:
    """Whether the message has it as a word of its own."""
    if not text.strip():
        return False
    return bool(re.search(rf"(?<![\w.-]){re.escape(text[:40])}(?![\w-])", message))

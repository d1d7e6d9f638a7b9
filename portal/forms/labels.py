"""What rooms below refuse, with the label that a person sees in place of a field's name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django import forms

# What a refusal begins with, and each of several after a semicolon.
_HEAD = re.compile(r"(?:^|(?<=; ))([a-z_]+(?:\.[a-z_]+)?)(?=: )")
_WITHIN = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


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

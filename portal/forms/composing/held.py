"""The composer's fields as a template holds them: locked, or free as far as it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django import forms

from portal.forms.job_text import GROUPED
from portal.forms.jobs import JobForm
from scheduler.spec.rules import LOCKED, Rules, rule_words


def hold_to(form: JobForm, rules: Rules) -> None:
    """Lock and bound the fields of a form whose `initial` comes from the template."""
    words = rule_words(rules)
    for path, rule in rules.items():
        for name in GROUPED[path].values() if path in GROUPED else (path,):
            if name in form.fields:
                _hold(form.fields[name], rule, words[path])


def _hold(field: forms.Field, rule: Mapping[str, Any], words: str) -> None:
    if LOCKED in rule:
        # Django then takes the template's value, whatever was sent.
        field.disabled = True
        field.help_text = "Locked by the template."
        return
    field.help_text = f"By the template: {words}."
    if "choices" in rule and isinstance(field, forms.ChoiceField):
        allowed = {str(one) for one in rule["choices"]}
        offered = [one for one in cast(list[Any], field.choices) if str(one[0]) in allowed]
        field.choices = offered or field.choices
    if "min" in rule or "max" in rule:
        ends = {end: rule[end] for end in ("min", "max") if end in rule}
        if isinstance(field.widget, forms.NumberInput):
            field.widget.attrs |= ends

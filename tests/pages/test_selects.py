"""Selects are written at once, and are what Django's templates would write."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from django import forms
from django.forms.renderers import DjangoTemplates
from django.utils.safestring import mark_safe

from portal.forms.widgets.selects import Renderer

HOSTILE = "<b>\"x\" & 'y'</b>"
CHOICES = {
    "strings": [("a", "Alpha"), ("b<", HOSTILE), (HOSTILE, "c")],
    "other types": [(1, 1234567), (None, "none"), (2.5, Decimal("1.50")), (date(2026, 1, 2), True)],
    "groups": [("", "-"), ("Group <1>", [("a", "A"), ("b", "B")]), (7, [("c", "C")]), ("d", "D")],
    "safe": [(mark_safe("&amp;"), mark_safe("<i>&amp;</i>")), ("x", date(2026, 1, 2))],
    "none": [],
}


class Numbered(forms.Select):
    """Options with attributes of their own."""

    def create_option(self, name, value, *args, **more):
        option = super().create_option(name, value, *args, **more)
        option["attrs"] |= {"data-n": value, "hidden": value == "b", "title": HOSTILE}
        return option


class Drawn(forms.Select):
    """Options of another template, which no other one stands for."""

    option_template_name = forms.RadioSelect.option_template_name


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("widget", [forms.Select, forms.SelectMultiple, Numbered, Drawn])
@pytest.mark.parametrize("value", [None, "a", "b<", 1, ["a", "b"]])
def test_a_select_is_what_djangos_templates_write(choices, widget, value):
    made = widget(attrs={"class": "in", "required": True, "disabled": False, "x": HOSTILE, "n": 3})
    made.choices = choices
    ours, theirs = (
        made.render("name<", value, {"id": "i"}, renderer=renderer)
        for renderer in (Renderer(), DjangoTemplates())
    )
    assert ours == theirs
    assert "<select" in ours


def test_pages_are_made_with_it():
    form = forms.Form()
    form.fields["one"] = forms.ChoiceField(choices=[("a", HOSTILE)])
    assert isinstance(form.renderer, Renderer)
    assert "&lt;b&gt;" in str(form["one"])
    other = Renderer().render(
        forms.TextInput.template_name,
        {"widget": {"name": "t", "type": "text", "value": "v", "attrs": {}}},
    )
    assert other == '<input type="text" name="t" value="v">'

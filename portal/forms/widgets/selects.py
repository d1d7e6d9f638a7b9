"""How widgets become HTML: selects at once, everything else by Django's templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.forms import Select
from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.html import conditional_escape


class Renderer(DjangoTemplates):
    """Equals Django's own one. A select of projects or owners has hundreds of options, each of
    which is two templates there."""

    def render(
        self, template_name: str, context: dict[str, Any], request: HttpRequest | None = None
    ) -> str:
        """The widget of `context`."""
        if template_name == Select.template_name and _is_plain(context["widget"]):
            return "".join(_select(context["widget"]))
        return super().render(template_name, context, request)


def _is_plain(widget: Mapping[str, Any]) -> bool:
    """Whether its options are Django's own."""
    return all(
        option["template_name"] == Select.option_template_name
        for _, options, _ in widget["optgroups"]
        for option in options
    )


def _select(widget: Mapping[str, Any]) -> Iterator[str]:
    yield f'<select name="{conditional_escape(widget["name"])}"{_attributes(widget["attrs"])}>'
    for group, options, _ in widget["optgroups"]:
        if group:
            yield f'\n  <optgroup label="{_text(group)}">'
        for option in options:
            value, words = conditional_escape(str(option["value"])), _text(option["label"])
            yield f'\n  <option value="{value}"{_attributes(option["attrs"])}>{words}</option>\n'
        if group:
            yield "\n  </optgroup>"
    yield "\n</select>"


def _attributes(attrs: Mapping[str, Any]) -> str:
    return "".join(
        f" {conditional_escape(name)}"
        + ("" if value is True else f'="{conditional_escape(str(value))}"')
        for name, value in attrs.items()
        if value is not False
    )


def _text(value: Any) -> str:
    """As a template puts a value into a page."""
    return conditional_escape(value if isinstance(value, str) else localize(value))

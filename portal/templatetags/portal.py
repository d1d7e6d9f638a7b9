"""What every template can say; loaded everywhere through the engine's `builtins`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from html import escape
from typing import Any

from django import template
from django.conf import settings
from django.forms import BoundField, CheckboxInput, CheckboxSelectMultiple, RadioSelect
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.serving.once import form_key
from portal.templatetags import frame, measures, moments, sample, typed
from portal.templatetags.states import look_of
from portal.templatetags.wording import (
    asked_as,
    change_words,
    in_words,
    or_over,
    policy_words,
    words,
)
from scheduler.states import days_in_words, shown_state
from scheduler.states import hour_places as places_of
from scheduler.states import is_endless as has_no_end

register = template.Library()

# Letters of a name that may wrap as words do; what is longer gets two lines and no more.
_SHORT = 40

for _filter in (
    *measures.SPANS,
    measures.count,
    measures.gpu_hours,
    measures.mib,
    measures.size_bytes,
    measures.percent,
    measures.less,
    moments.day,
    typed.arguments,
    words,
    in_words,
    policy_words,
    change_words,
    asked_as,
    or_over,
):
    register.filter(_filter.__name__, _filter)
for _link in frame.TAGS:
    register.simple_tag(_link, takes_context=True)
for _tag in (*moments.TAGS, form_key, sample.sample_sentence):
    register.simple_tag(_tag)


@register.filter
def money(amount: object, currency: str = "") -> str:
    """`{{ cost|money }}` or `{{ cost|money:row.currency }}`: two decimals and the ISO code."""
    return measures.money(amount, currency or str(settings.TRAINYARD["currency"]))


@register.filter
def price(amount: Decimal, currency: str = "") -> str:
    """`{{ line.unit_price|price:row.currency }}`: two to six decimals, then the ISO code."""
    return f"{measures.price_text(amount)} {currency}".rstrip()


@register.filter
def hour_places(rows: Iterable[object], name: str) -> int:
    """`{% with places=rows|hour_places:"gpu_seconds" %}`: the decimals of a column of GPU-hours of
    rows with such an attribute; the sum below it takes no more."""
    return places_of(getattr(row, name) for row in rows)


@register.filter
def exact(amount: Decimal, form: str = "") -> str:
    """`{{ line.amount|exact }}`: all digits, without zeros that say nothing; `|exact:"g"`: with
    commas between thousands."""
    text = measures.shortest(amount)
    return f"{Decimal(text):,f}".replace("-", "−") if form == "g" else text


@register.filter
def share_of(part: object, whole: object) -> str:
    """`{{ used|share_of:total }}`: `71 %`."""
    return measures.percent(measures.share_percent(part, whole))


@register.filter
def left(moment: datetime, now: datetime) -> str:
    """`{{ act_at|left:now }}`: `24 min`, until a moment that is to come."""
    return measures.duration(moment - now)


@register.filter
def dated(text: str) -> str:
    """`{{ change.after|dated }}`: the moments and days in a text as pages say them."""
    return days_in_words(text)


@register.filter
def is_endless(end: datetime) -> bool:
    """`{% if budget.until|is_endless %}`: whether an end that had to be given stands for none."""
    return has_no_end(end, timezone.now())


@register.filter
def at_most(number: int, limit: int) -> int:
    """`{{ held|at_most:guaranteed }}`: the smaller of both."""
    return min(number, limit)


@register.filter
def device_short_name(model: object) -> str:
    """`NVIDIA H100 80GB HBM3` → `H100 80GB`."""
    return measures.device_short_name(str(model or ""))


@register.filter
def plain(text: object) -> str:
    """A given name for `<title>` and attributes, where no `<bdi>` can isolate it."""
    return measures.plain(str(text))


@register.filter
def lines_before(number: int) -> int:
    """The line a log opens with so that line `number` has some context above it."""
    return max(1, number - 8)


@register.filter
def initials(user: Any) -> str:
    """One or two capitals for the round mark of a person."""
    names = (user.get_full_name() or user.get_username()).replace(".", " ").split()
    return "".join(name[0] for name in names[:2]).upper()


@register.simple_tag
def gpu_count(model: object, count: object) -> str:
    """`{% gpu_count job.gpu_model job.gpus %}`: `H100 80GB × 8`."""
    return measures.gpu_count(str(model or ""), count)


@register.simple_tag
def name(value: object) -> SafeString:
    """A name that a person chose, isolated so that it cannot reorder what stands around it.

    One that could take more room than its line is shortened by the style sheet; the whole of it is
    its title and stands at the head of its own page.
    """
    text = measures.plain(str(value))
    shown = escape(text)
    if _is_short(text):
        return SafeString(f'<bdi class="name">{shown}</bdi>')
    return SafeString(f'<bdi class="name long" title="{shown}">{shown}</bdi>')


@register.simple_tag
def said(value: object) -> SafeString:
    """A reason or a note in a table's cell: shown whole, and no wider than a cell may be."""
    text = measures.plain(str(value))
    return SafeString(f'<bdi class="{"name" if _is_short(text) else "said"}">{escape(text)}</bdi>')


def _is_short(text: str) -> bool:
    return len(text) <= _SHORT and (text.isascii() or not measures.is_piled(text))


@register.simple_tag
@lru_cache(maxsize=1024)
def icon(glyph: str) -> SafeString:
    """A drawn icon of components/_sprite.html; decorative, so give it a word beside it."""
    box = "0 0 20 20" if glyph == "yard" else "0 0 16 16"
    return format_html(
        '<svg class="ic" viewBox="{}" aria-hidden="true"><use href="#i-{}"/></svg>',
        box,
        glyph,
    )


@register.inclusion_tag("components/_badge.html")
def state_badge(
    state: object, end_reason: object = "", unreachable: bool = False
) -> dict[str, object]:
    """`{% state_badge job.state job.end_shown %}`: the pill for any state of anything."""
    word = shown_state(str(state), str(end_reason or ""), unreachable=bool(unreachable))
    look = look_of(word)
    return {"word": word, "css": look.css, "glyph": look.glyph}


@register.inclusion_tag("components/_notices.html", takes_context=True)
def unknown_notice(context: Context) -> dict[str, object]:
    """Values that make no sense, and parameters that nobody read; nothing of the latter where the
    page says so itself, as `unknown`."""
    says_so_itself = "unknown" in context
    return {
        "problems": context.get("odd", []),
        "unknown": [] if says_so_itself else context.get("never_read", []),
    }


@register.inclusion_tag("components/_field.html")
def field(
    bound: BoundField, cell: str = "", optional: bool = True, label: str = ""
) -> dict[str, object]:
    """`{% field form.name "c3" %}`: label, widget, hint and error, wired for screen readers."""
    widget = bound.field.widget
    kind = "check" if isinstance(widget, CheckboxInput) else "line"
    if isinstance(widget, RadioSelect | CheckboxSelectMultiple):
        kind = "choices"
    css = f"in {widget.attrs.get('class', '')}".strip()
    attrs: dict[str, str | bool] = {"class": css} if kind == "line" else {}
    # The library of sign-ins says a label once more in its field, by its own name for it.
    if label or str(widget.attrs.get("placeholder", "")).startswith(str(bound.label or " ")):
        attrs["placeholder"] = False
    # Where the error will stand; an empty place says nothing.
    if is_live := getattr(bound.form, "is_live", False):
        hint = f"{bound.auto_id}_helptext " if bound.help_text else ""
        attrs["aria-describedby"] = f"{hint}{bound.auto_id}_error"
    return {
        "field": bound,
        "kind": kind,
        "is_live": is_live,
        "widget": bound.as_widget(attrs=attrs),
        "cell": cell,
        "label": label or bound.label,
        "say_optional": optional and not bound.field.required,
    }


@register.simple_tag
def opened(form: Any, names: str) -> str:
    """`<details{% opened form "begin hold" %}>`: open if one of these fields is used or wrong."""
    usual = form.blank
    is_used = any(
        form[name].errors or str(form[name].value() or "") != str(usual.get(name) or "")
        for name in names.split()
    )
    return " open" if is_used else ""


@register.inclusion_tag("components/_bar.html")
def bar(label: str, total: object, **parts: object) -> dict[str, object]:
    """`{% bar "6 of 8 GPUs used" 8 used=6 com=1 %}`: stacked parts of a whole.

    Keys are the `b-…` classes of tables.css (used, bor, com, ok, warn, bad, mute) in order; parts
    beyond the whole are cut at its end.
    """
    segments, x = [], measures.share_percent(0, 1)
    for css, size in parts.items():
        width = min(measures.share_percent(size, total), 100 - x)
        segments.append({"css": f"b-{css}", "x": f"{x:.2f}", "width": f"{width:.2f}"})
        x += width
    return {"label": label, "segments": segments}

"""Links around every page: the rail, the bar at the bottom and the menus."""

from __future__ import annotations

from functools import lru_cache

from django.template import Context
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, get_script_prefix, get_urlconf, reverse
from django.utils.safestring import SafeString

from portal.templatetags.sections import entry_of, place_of

_RAIL_LINK, _TAB_LINK = "components/_rail_link.html", "components/_tab_link.html"


@lru_cache(maxsize=4096)
def _drawn(template: str, url: str, glyph: str, text: str, current: bool, count: str) -> SafeString:
    """A page has sixty links around what it shows, mostly those of the page before."""
    context = {"url": url, "glyph": glyph, "text": text, "current": current, "count": count}
    return render_to_string(template, context)


@lru_cache(maxsize=1024)
def _address(view_name: str, urlconf: str | None, prefix: str) -> str:
    try:
        return reverse(view_name, urlconf)
    except NoReverseMatch:
        return ""


def _url(context: Context, view_name: str) -> str:
    url = _address(view_name, get_urlconf(), get_script_prefix())
    scope = context.get("scope_now")
    if url and scope and scope["query"] and view_name in scope["pages"]:
        url += f"?{scope['query']}"
    return url


def _view_of(context: Context) -> str:
    match = getattr(context.get("request"), "resolver_match", None)
    return getattr(match, "view_name", "") or ""


def entry_now(context: Context) -> str:
    """`{% entry_now as here %}`: the entry of the rail that this page belongs to; a page says
    another one as `entry` of its context."""
    return context.get("entry") or entry_of(_view_of(context))


def rail_link(
    context: Context, view_name: str, glyph: str, text: str, count: object = ""
) -> SafeString:
    """A link of the left rail; current on every page of its section. `count`: what waits there."""
    is_current = entry_now(context) == view_name
    return _drawn(_RAIL_LINK, _url(context, view_name), glyph, text, is_current, str(count or ""))


def tab_link(
    context: Context, view_name: str, glyph: str, text: str, count: object = ""
) -> SafeString:
    """A link of the bottom bar or of a menu, with what waits there."""
    is_current = (context.get("entry") or place_of(_view_of(context))) == view_name
    return _drawn(_TAB_LINK, _url(context, view_name), glyph, text, is_current, str(count or ""))


TAGS = (entry_now, rail_link, tab_link)

"""Pages of errors in a browser, under made-up addresses of the stack whose styles they load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import django
from django.apps import apps
from django.http import HttpRequest
from django.template.loader import render_to_string
from playwright.sync_api import BrowserContext, Route

_SAYS = {
    400: "The request could not be understood.",
    403: "Your role does not allow this.",
    404: "",
    405: "This address does not take that kind of request.",
    413: "What was sent is larger than the server accepts.",
    429: "You ask for this too fast. Try again in 3 s.",
    500: "",
    503: "",
}


def fault_pages(context: BrowserContext) -> Iterator[str]:
    """Addresses that show in this context what the server answers when something is wrong.

    They are answered with a 200 here: a browser complains of every other answer.
    """
    if not apps.ready:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")
        django.setup()
    for status, detail in _SAYS.items():
        shown = {"detail": detail, "status": status, "reference": "4f0c7d1e22ab"}
        html = render_to_string(f"errors/{status}.html", shown, HttpRequest())
        context.route(f"**/errors/{status}/", partial(_answer, html))
        yield f"/errors/{status}/"


def _answer(html: str, route: Route) -> None:
    route.fulfill(body=html, content_type="text/html; charset=utf-8")

"""Addresses of many things of one kind, for pages that lead to thousands."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from django.urls import reverse
from django.utils.http import RFC3986_SUBDELIMS

# As Django leaves them in an address.
_SAFE = RFC3986_SUBDELIMS + "/~:@"


def links_to(route: str) -> Callable[[object], str]:
    """The address of each by its number or name: what `reverse` gives, which is asked only once.

    For routes with one part that stands for the thing; the address is not escaped for HTML.
    """
    before, _, after = reverse(route, args=[0]).rpartition("0")

    def link(one: object) -> str:
        return f"{before}{quote(str(one), safe=_SAFE)}{after}"

    return link

"""What every page's frame needs."""

from __future__ import annotations

from django.http import HttpRequest

THEMES = ("system", "light", "dark")
THEME_COOKIE = "theme"


def shell(request: HttpRequest) -> dict[str, object]:
    """`theme`: light, dark, or empty to follow the system. No query: most pages need none."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {"theme": theme if theme in THEMES[1:] else ""}

"""What nobody can take back takes two presses: a menu, a field or a page stands before it."""

from __future__ import annotations

import re
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
# A form of one red button; `fields`: whoever fills one in has thought about it.
FORM = re.compile(
    r'<form\b[^>]*method="post"[^>]*>(?:(?!</form>).)*?<button class="[^"]*\bdan\b[^>]*>', re.DOTALL
)
FIELDS = re.compile(r'<input class="in"|{% field|<textarea|<select|type="radio"|_reason\.html')
BEFORE = 160
# One press is enough: the page itself asks, another person agrees, or it is made anew at once.
ENOUGH = {
    "addresses/undo.html": "the page asks",
    "finance/index.html": "a saved view is saved again",
    "finance/months/_months.html": "another person has proposed it",
    "idling/rule.html": "a rule is switched on again",
    "nodes/enrol.html": "a token that nobody has used yet; another is made at once",
    "people/delegations.html": "given again",
    "people/groups.html": "the page asks",
    "people/roles.html": "given again",
    "requests/cancel.html": "the page asks",
    "requests/rules.html": "a rule is set again",
    "settings/profile.html": "a sentence stands beside it; linked again by signing in there",
    "teams/detail.html": "an invitation is sent again",
    "welcome.html": "loaded again",
}


def hasty(text: str) -> int:
    """How many red buttons act at the first press."""
    return sum(
        "menu-items" not in text[max(0, found.start() - BEFORE) : found.end()]
        and not FIELDS.search(found[0])
        for found in FORM.finditer(text)
    )


def test_red_buttons_say_first_what_follows() -> None:
    found = {
        str(path.relative_to(TEMPLATES)): count
        for path in TEMPLATES.rglob("*.html")
        if (count := hasty(path.read_text(encoding="utf-8")))
    }
    assert found.keys() == ENOUGH.keys()
    assert {name for name, count in found.items() if count > 1} == {"requests/cancel.html"}


def test_one_that_does_not_is_found() -> None:
    form = '<form method="post" action="/x/">{% csrf_token %}<button class="btn sm dan">Go</button>'
    assert hasty(form) == 1
    assert hasty(f'<div class="menu-items">{form}') == 0
    assert hasty(form.replace("<button", '<input class="in" name="why"><button')) == 0

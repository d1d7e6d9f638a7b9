"""How fast this machine is just now: computing of a piece of work that never changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.template import Context, Engine

# What `pace` is on the machine whose figures the README has, at rest. Where it is more, a page may
# take as many times longer.
USUAL_MS = 4.7
_TABLE = Engine().from_string(
    "{% for row in rows %}{% if row.number %}<tr><td>{{ row.name|upper }}</td>"
    '<td class="num">{{ row.number|floatformat:2 }}</td><td>{{ row.words.0 }}</td></tr>{% endif %}'
    "{% endfor %}"
)


def pace() -> float:
    """Milliseconds for a table as pages have them: objects, words and a template."""
    return min(computing(_table)[1] for _ in range(2))


def _table() -> str:
    rows = [{"name": f"row-{n % 97}", "number": n, "words": ["<a>", n]} for n in range(250)]
    rows.sort(key=lambda row: (row["name"], -int(str(row["number"]))))
    return _TABLE.render(Context({"rows": rows}))


def computing(act: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and how many milliseconds this process computed for it: waiting for others on
    the machine is not counted."""
    began = time.process_time()
    found = act()
    return found, 1000 * (time.process_time() - began)

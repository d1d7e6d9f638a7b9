"""What only a past has to show, for the gallery: closed months, their reports and statements."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Literal

from playwright.sync_api import Browser, Page

from portal.embedded.programs import SCHEDULER, python
from tests.browser.conftest import sign_in
from tests.servers import LiveStack, running_stack

Theme = Literal["light", "dark"]
PAGES = ("/", "/jobs/", "/queue/", "/usage/", "/approvals/?state=all", "/finance/")
MORE = ("budgets", "periods", "prices", "centres", "focus", "terms", "costs", "adjustments")
_TRIES = 15
_TEAM = "/teams/demo-dialogue/"


def shoot_past(
    browser: Browser,
    shots: Sequence[tuple[Theme, int]],
    shoot: Callable[[Page, str, str], None],
    name_of: Callable[[str], str],
) -> None:
    """Thirty days of the demonstration in a stack of its own, in these themes and widths."""
    # Without nodes of its own: a month that these have begun is not closed for a demonstration.
    with running_stack(nodes=()) as stack:
        _seed(stack)
        addresses: list[str] = []
        for theme, width in shots:
            context = browser.new_context(
                base_url=stack.address,
                color_scheme=theme,
                viewport={"width": width, "height": 900},
            )
            context.set_default_timeout(90_000)
            page = context.new_page()
            sign_in(page, "admin", stack.password("admin"))
            addresses = addresses or _addresses(page)
            for address in addresses:
                shoot(page, address, f"past-{name_of(address)}-{theme}-{width}")
            context.close()


def _seed(stack: LiveStack) -> None:
    """While no scheduler is there that would take part in the past."""
    stack.supervisor.stop_program(SCHEDULER)
    words = python("manage.py", "seed_demo")
    for _ in range(_TRIES):
        # Its lease ends some seconds after it.
        time.sleep(2)
        done = subprocess.run(
            words, env=stack.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
    else:
        raise RuntimeError(done.stderr)
    stack.supervisor.start_program(SCHEDULER)


def _addresses(page: Page) -> list[str]:
    """Pages, every report of a closed month, and the first statement of it."""
    page.goto("/finance/")
    reports = _links(page, "/finance/reports/")
    page.goto("/finance/reports/team-statement/")
    statements = _links(page, "/finance/statements/")[:1]
    own = [f"/finance/{name}/" for name in MORE]
    return [*PAGES, *own, _TEAM, f"{_TEAM}quota/", *reports, *statements]


def _links(page: Page, begin: str) -> list[str]:
    found = [one.get_attribute("href") or "" for one in page.locator(f"a[href^='{begin}']").all()]
    return list(dict.fromkeys(one for one in found if one.count("?") == 0))

"""Time that passes for a page alone: its timers are due at once, no server or job knows of it.

Playwright's clock stands in for a page's timers, dates and frames. It goes on by itself, and in
leaps with `pass_time`. A page that was hurried has a later date than its server.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from playwright.sync_api import Page, TimeoutError

# What a page asks for within a second of its own is mostly answered before its next one.
_STEP_MS = 1_000
_ANSWERS_MS = 40
# What is slower is waited for: at most so long, as one that is held back is not answered at all.
_PATIENT_MS = 2_000
_ASKS = ".htmx-request"


def keep_time(page: Page) -> Page:
    """From its next address on the time of this page, and of those beside it, can be hurried."""
    page.clock.install()
    return page


def pass_time(page: Page, seconds: int) -> None:
    """So many seconds for the page; between them it gets what it asks for."""
    for _ in range(seconds):
        page.clock.run_for(_STEP_MS)
        page.wait_for_timeout(_ANSWERS_MS)
        _let_answers_come(page)


def _let_answers_come(page: Page) -> None:
    # A locator goes on in the page that an answer loads anew, where a script's context is gone.
    with suppress(TimeoutError):
        page.locator(_ASKS).first.wait_for(state="detached", timeout=_PATIENT_MS)


def pass_time_until(page: Page, seconds: int, is_so: Callable[[], bool]) -> None:
    """Until it is so, which it must be within so many seconds for the page."""
    for _ in range(seconds):
        if is_so():
            return
        pass_time(page, 1)
    assert is_so(), f"not within {seconds} s"

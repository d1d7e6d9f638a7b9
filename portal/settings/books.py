"""The figures of the books, which are part of the scheduler's."""

from __future__ import annotations

from typing import Any

from portal.settings import env

FIGURES: dict[str, Any] = {
    "currency": env.text("TRAINYARD_CURRENCY", "EUR"),
    "auto_close": env.choice("TRAINYARD_AUTO_CLOSE", "full", "soft", "off"),
    "soft_close_day": env.whole("TRAINYARD_SOFT_CLOSE_DAY", 1, low=1, high=28),
    "idle_below_percent": env.whole("TRAINYARD_IDLE_BELOW_PERCENT", 5, low=1, high=100),
    "idle_span_s": env.whole("TRAINYARD_IDLE_SPAN_S", 300, low=60, high=3600),
    "close_day": env.whole("TRAINYARD_CLOSE_DAY", 5, low=1, high=28),
}

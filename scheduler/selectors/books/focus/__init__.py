"""A closed month as a FOCUS export."""

from scheduler.selectors.books.focus.export import focus_rows
from scheduler.selectors.books.focus.months import billing_period, close_version

__all__ = ["billing_period", "close_version", "focus_rows"]

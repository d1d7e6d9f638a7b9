"""Months over time: closed by the calendar, and compared with what their close has sealed."""

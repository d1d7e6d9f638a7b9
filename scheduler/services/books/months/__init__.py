"""Months over time: closed by the calendar, priced anew with figures shown before."""

"""Waiting lines: their order, one's own turns in it, and how long people wait."""

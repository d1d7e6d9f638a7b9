"""Schedules from a terminal."""

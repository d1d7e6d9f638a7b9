"""Schedules of jobs, for a viewer."""

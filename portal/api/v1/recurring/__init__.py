"""Schedules of jobs over REST."""

"""Reads of what is kept of jobs that are over."""

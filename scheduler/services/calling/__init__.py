"""Calls of many nodes at once."""

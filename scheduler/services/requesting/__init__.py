"""Asking for quota, deciding on it, and carrying out what was decided."""

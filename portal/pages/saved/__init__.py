"""Saved views of tables."""

"""Budgets while time goes by: watched, and people told."""

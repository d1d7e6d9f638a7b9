"""Budgets held against the ledger."""

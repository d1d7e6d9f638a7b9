"""Rates as the ledger and its exports count with them."""

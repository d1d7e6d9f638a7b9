"""The chain of the ledger, as it is stored."""

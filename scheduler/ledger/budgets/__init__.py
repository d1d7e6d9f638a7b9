"""What budgets have used, as the ledger says it."""

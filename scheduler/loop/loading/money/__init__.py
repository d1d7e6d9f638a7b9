"""What budgets and highest prices tell the engine."""

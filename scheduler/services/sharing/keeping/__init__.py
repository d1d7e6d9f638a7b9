"""How budgets are kept: their rules, and what waiting jobs pledge."""

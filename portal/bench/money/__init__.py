"""What the books cost to keep: a month filled, closed and exported, one process each."""

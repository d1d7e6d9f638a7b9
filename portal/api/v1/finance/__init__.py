"""Money beside prices: one file a noun."""

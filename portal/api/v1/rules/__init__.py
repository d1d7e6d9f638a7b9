"""What operators lay down: one file a noun."""

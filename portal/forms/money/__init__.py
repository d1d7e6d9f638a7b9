"""Forms of those who keep the books."""

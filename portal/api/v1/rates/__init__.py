"""Prices and rate cards over REST."""

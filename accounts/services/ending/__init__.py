"""Ending prices and cards of teams."""

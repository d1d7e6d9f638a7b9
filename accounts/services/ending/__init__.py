"""Ending prices and cards of teams, and the access of people."""

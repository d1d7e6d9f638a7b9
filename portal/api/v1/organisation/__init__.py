"""Roles, teams and accounts over REST."""

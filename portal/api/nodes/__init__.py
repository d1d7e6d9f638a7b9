"""Calls of nodes: doors, and what is taken in together."""

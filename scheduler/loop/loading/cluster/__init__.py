"""Nodes, devices, and what holds them."""

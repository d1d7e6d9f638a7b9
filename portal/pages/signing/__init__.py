"""Signing in, and showing again who one is."""

"""Commands about quota that is asked for."""

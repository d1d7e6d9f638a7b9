"""Writing rows in fewer and cheaper statements."""

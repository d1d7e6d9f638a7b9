"""Writing rows in fewer and cheaper statements, and nothing into them that cannot be."""

"""Pages of arrays."""

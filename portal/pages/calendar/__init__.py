"""Pages of what is planned for nodes."""

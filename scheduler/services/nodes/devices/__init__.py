"""Single devices of nodes."""

"""What jobs may cost at most."""

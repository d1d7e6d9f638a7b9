"""What readings say, summed as they come, and what late ones undo of it."""

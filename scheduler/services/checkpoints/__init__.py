"""What is known of checkpoints: confirmed by nodes, offered to the next attempt, lost without."""

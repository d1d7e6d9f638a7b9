"""What was used: its costs, and what of it was wasted."""

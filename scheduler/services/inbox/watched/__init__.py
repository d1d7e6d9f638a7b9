"""What becomes of watches by itself: starts are told, and those that tell nothing any more go."""

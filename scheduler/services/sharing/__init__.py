"""What accounts may hold, and the guard that keeps them to it."""

"""What teams are guaranteed against what they held: read, and counted moment by moment."""

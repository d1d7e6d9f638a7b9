"""What becomes of jobs that have to be finished by a moment."""

"""What is kept of jobs that are over."""

"""What is kept of jobs that are over: their output files, and for how long what is kept."""

"""What a job's nodes have in common, and how many of them there are."""

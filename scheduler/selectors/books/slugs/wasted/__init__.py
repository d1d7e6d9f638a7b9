"""What was used and what was wasted: whose readings count, by attempt, and by day."""

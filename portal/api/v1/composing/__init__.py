"""What a job starts from, over REST."""

"""What a job starts from, on the command line."""

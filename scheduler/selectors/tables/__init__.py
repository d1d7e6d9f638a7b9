"""What stands around tables, each in as few statements as it takes."""

"""What stands below a column."""

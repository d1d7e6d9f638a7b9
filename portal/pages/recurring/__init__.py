"""Pages of jobs that come again."""

"""What the pages of one job show, in as few statements as they take."""

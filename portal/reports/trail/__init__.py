"""What the audit keeps, as the pages say it where it is changed."""

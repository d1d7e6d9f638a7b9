"""Jobs that come again by a schedule."""

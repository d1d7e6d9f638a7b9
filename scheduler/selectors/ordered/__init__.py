"""Tables in the order of a column, page by page."""

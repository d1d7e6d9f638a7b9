"""People as a whole, for administrators."""

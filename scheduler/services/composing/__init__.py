"""Writing what jobs start from: templates of teams, and drafts of people."""

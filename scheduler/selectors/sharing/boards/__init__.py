"""The board of a team: its budgets, people, what goes on and what idles."""

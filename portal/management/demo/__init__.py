"""A whole organisation to look at: people, months of work, books. Made by services, removable."""

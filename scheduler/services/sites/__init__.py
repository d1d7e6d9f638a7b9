"""What operators tell of the site: where nodes stand, what they have, which licences exist."""

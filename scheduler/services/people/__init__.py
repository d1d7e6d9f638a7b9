"""People who leave: what they have waiting or running."""

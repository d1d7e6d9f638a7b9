"""The pages on which mail addresses change."""

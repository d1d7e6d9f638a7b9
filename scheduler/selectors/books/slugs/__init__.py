"""The reports themselves, by what they count."""

"""What operators fill in, and who books."""

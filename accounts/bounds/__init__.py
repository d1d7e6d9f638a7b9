"""What tokens may be bound to."""

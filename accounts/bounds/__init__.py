"""What tokens may be bound to, and attempts are counted by."""

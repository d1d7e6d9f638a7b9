"""How widgets of forms become HTML."""

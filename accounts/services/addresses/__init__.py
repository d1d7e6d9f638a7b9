"""How a person's mail address changes: asked for, confirmed from the new one, taken back."""

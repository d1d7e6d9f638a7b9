"""Who may see what jobs cost."""

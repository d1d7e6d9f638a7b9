"""What this node is and how it does: host facts, samples, preflight."""

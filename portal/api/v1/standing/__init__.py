"""How a job stands beside its state, as JSON."""

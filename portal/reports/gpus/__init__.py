"""Pictures of what GPUs do beside each other."""

"""What guarantees promise: against what is there, and among those who share a guarantee."""

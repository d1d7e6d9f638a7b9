"""The past once more, for those who run the cluster."""

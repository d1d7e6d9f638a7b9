"""When GPUs and nodes come free."""

"""Jobs whose GPUs do little."""

"""Jobs whose GPUs do little, over REST."""

"""Jobs whose GPUs do little: rules, evidence, the ladder, and who still needs them."""

"""What jobs do on their GPUs and nodes, over time."""

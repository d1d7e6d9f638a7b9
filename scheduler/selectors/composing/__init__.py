"""What jobs start from, for a viewer."""

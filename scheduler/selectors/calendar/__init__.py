"""What is planned for nodes, for a viewer."""

"""What a job sees of the node: folders, memory, namespaces."""

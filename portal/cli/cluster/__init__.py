"""Commands about what the cluster is planned for."""

"""What people watch of others."""

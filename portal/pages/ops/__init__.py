"""Pages of those who keep the server itself alive."""

"""`/requests/`: asking for quota and deciding on it."""

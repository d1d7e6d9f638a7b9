"""Requests for quota and the inbox of those who decide on them."""

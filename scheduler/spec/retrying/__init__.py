"""Retry rules of one's own: what an end has to be like, and what follows then."""

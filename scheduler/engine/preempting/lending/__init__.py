"""Who runs on what is lent, and which owner takes it back; see `reclaiming.py`."""

"""SQLite as Django knows it, with an orderly queue of writers; see `base.py`."""

"""What room costs on nodes while jobs are stopped; see `sums.py` and `cheapest.py`."""

"""Pages around the composer: where a job starts from."""

"""From a spec to rows: where it goes, its columns, many at once."""

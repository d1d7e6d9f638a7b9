"""What a request would do and cost: where its owner stands, and the past replayed with it."""

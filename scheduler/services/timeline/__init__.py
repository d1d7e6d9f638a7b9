"""Device time, second by second: the rows the books are kept from."""

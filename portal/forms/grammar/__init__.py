"""One language of filters for tables, the palette and the API."""

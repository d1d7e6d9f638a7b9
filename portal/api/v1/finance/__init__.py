"""Money for programs: prices and terms beside each other, reports and their files."""

"""Commands about people: roles of the organisation."""

"""Who people are at the identity provider, and what their groups there give them here."""

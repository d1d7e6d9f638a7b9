"""How people sign in and get back in."""

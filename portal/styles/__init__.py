"""How style sheets reach a browser."""

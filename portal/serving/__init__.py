"""How requests come in: the server that people and nodes call."""

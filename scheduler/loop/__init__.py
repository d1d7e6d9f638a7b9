"""Does what the engine decides: the engine's only caller in production."""

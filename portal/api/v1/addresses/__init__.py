"""How mail addresses change, for programs and signed-in browsers."""

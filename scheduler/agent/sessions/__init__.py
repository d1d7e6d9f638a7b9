"""Interactive sessions on a node: the terminal's program, and the tunnel people come through."""

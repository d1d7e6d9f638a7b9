"""What the protocol promises, under a virtual clock: real servers, nodes by their rules."""

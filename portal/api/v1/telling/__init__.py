"""Where and when people and teams are told what happens."""

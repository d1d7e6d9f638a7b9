"""Connections of jobs on a node: people's, by the terminal's program and the tunnel they come
through, and the jobs' own to the agent, which hears of checkpoints."""

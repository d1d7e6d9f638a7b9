"""How supervisors come to be: the agent asks, a warm process forks."""

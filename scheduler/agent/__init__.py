"""The program that runs on GPU nodes: starts, watches and stops attempts."""

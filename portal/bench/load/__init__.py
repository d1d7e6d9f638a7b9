"""Workloads of many short jobs and many nodes, and what they cost."""

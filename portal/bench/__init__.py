"""Benchmarks: programs that print figures, never timed tests.

Each drives the product through its public doors: a stack in a temporary folder, the REST API, real
processes on nodes with simulated GPUs; or the engine itself, in the simulator. Progress goes to
standard error, one JSON object to standard output.
"""

"""The embedded default: every program of Trainyard on one machine, supervised, in one folder.

`up`, `smoke`, `bench` and the tests start the same `Stack`. Nothing here imports Django: what needs
the database runs in a child (`manage.py prepare`), so one process can start stacks in any folder.
"""

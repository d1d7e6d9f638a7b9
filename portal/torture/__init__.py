"""Breaking the product on purpose: real programs, faults, a history, and a checker of promises.

`manage.py torture` starts a whole installation on PostgreSQL in a temporary folder, hurts it, and
asks afterwards whether every promise was kept. Nothing here is imported by the product.
"""

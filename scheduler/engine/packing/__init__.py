"""Which node and device to take so that what stays free is worth most to the requests to come.

*One number per node state.* A potential says how much of a node's free GPU capacity the usual
requests will probably not be able to use. A share goes where that number grows least.

*The usual requests.* `mix.py` takes them from `Snapshot.demand`, or from the waiting jobs if that
is empty. Two potentials are built on them: `fragmentation.py` as published, and `potential.py`.

*Vectors, and only what changed.* `scoring.py` scores the nodes on which a request fits, equal
states once, and keeps the scores by kind of request until a node changes.
"""

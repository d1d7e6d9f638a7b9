"""What stays for good is not looked at again and again by the collector of garbage."""

from __future__ import annotations

import gc

# Python looks after 700 new objects: with hundreds of calls that are held open, an eighth of what
# the portal computed went into looking at what they still need. Nearly all that is made here goes
# by itself as soon as nothing refers to it; only what refers to itself waits for this.
_EVERY = (20_000, 10, 10)


def settle() -> None:
    """Set aside all that is loaded by now, as a server keeps it until it ends; look less often.

    A full collection walks through every object there is: that of the framework, models and pages
    took longer than the decision in whose midst it fell.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_EVERY)

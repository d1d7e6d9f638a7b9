"""What stays for good is not looked at again and again by the collector of garbage."""

from __future__ import annotations

import gc


def settle() -> None:
    """Set aside all that is loaded by now, as a server keeps it until it ends.

    A full collection walks through every object there is: that of the framework, models and pages
    took longer than the decision in whose midst it fell.
    """
    gc.collect()
    gc.freeze()

"""What loads kept, lent to those who load now and then: pages and previews that ask the engine.

A snapshot equals one that is loaded anew whatever was kept, because only rows whose text is the
same are not taken apart again (`texts.py`); so it does not matter who loaded before, or when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.loop.loading.whole import Kept

# Of a process; each is about as large as the queue. Who comes while all are lent keeps nothing.
_MOST = 2
_free: deque[Kept] = deque(maxlen=_MOST)


@contextmanager
def lent_rows() -> Iterator[Kept]:
    """What an earlier load of this process kept, for one load; nobody else has it meanwhile.

    After a load that failed it is not used again.
    """
    try:
        kept = _free.pop()
    except IndexError:
        kept = Kept()
    yield kept
    _free.append(kept)

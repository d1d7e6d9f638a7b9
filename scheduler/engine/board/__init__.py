"""The working copy of free capacity that is charged as jobs are admitted. It only shrinks.

`core.py` is the board; beside it what it counts with: devices by model and node (`supply.py`), who
is on which card (`cards.py`), and licences (`licences.py`).
"""

from scheduler.engine.board.core import Board, Packer
from scheduler.engine.board.supply import Supply

__all__ = ["Board", "Packer", "Supply"]

"""Why each waiting job waits: one reason, and the numbers that make its sentence true.

`precedence.py` is the ordered list of checks; a rule of another room adds one function and one row
there. `verdicts.py` walks the list, `words.py` puts requests and nodes into words.
"""

from scheduler.engine.explaining.verdicts import explain_waits, rule_out

__all__ = ["explain_waits", "rule_out"]

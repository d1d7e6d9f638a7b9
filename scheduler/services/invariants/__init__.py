"""The invariants that rows tell of, asked of live data."""

from scheduler.services.invariants.checking import check_invariants

__all__ = ["check_invariants"]

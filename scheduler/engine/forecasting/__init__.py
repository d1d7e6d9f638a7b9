"""When waiting jobs will probably start: worked out only when somebody asks.

`line.py` lets devices stand in a line and hands them out by time, `allowances.py` does so with what
accounts may hold; `laying.py` puts jobs into both, and `starts.py` does that for all who wait, once
as declared and once as learnt.
"""

from scheduler.engine.forecasting.starts import (
    FORECAST_REASONS,
    LIMIT_REASONS,
    Lined,
    forecast_start,
    forecast_starts,
)

__all__ = ["FORECAST_REASONS", "LIMIT_REASONS", "Lined", "forecast_start", "forecast_starts"]

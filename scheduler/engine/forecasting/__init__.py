"""When waiting jobs will probably start: worked out only when somebody asks.

`line.py` lets devices stand in a line and hands them out by time, `starts.py` does so for every
waiting job of a pool, once as declared and once as learnt.
"""

from scheduler.engine.forecasting.starts import FORECAST_REASONS, forecast_start, forecast_starts

__all__ = ["FORECAST_REASONS", "forecast_start", "forecast_starts"]

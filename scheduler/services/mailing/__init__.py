"""Reports that go out by themselves."""

from scheduler.services.mailing.schedules import (
    Due,
    claim_due,
    create_schedule,
    end_schedule,
    settle,
)

__all__ = ["Due", "claim_due", "create_schedule", "end_schedule", "settle"]

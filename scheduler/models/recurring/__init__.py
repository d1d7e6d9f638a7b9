"""Jobs that come again: schedules, and what came of their due times."""

from scheduler.models.recurring.schedules import JobSchedule, JobScheduleRun

__all__ = ["JobSchedule", "JobScheduleRun"]

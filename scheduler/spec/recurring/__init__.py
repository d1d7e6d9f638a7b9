"""When a job comes again: a rule of time as cron writes it, in a named time zone."""

"""What a token that is bound to a project may be used for: operations that stay within it.

The rights of its user are those in the project alone (`accounts/permissions.py`), so that a list or
a name beyond it does not exist for the token. Beside that, an operation that is not named here is
refused to it, so that a new one about teams, money or the cluster is closed until somebody has
thought of it.
"""

from __future__ import annotations

from typing import Final

WITHIN_A_PROJECT: Final = frozenset(
    {
        *("me_read", "schema_read", "projects_list"),
        *("jobs_list", "jobs_create", "jobs_bulk_create", "jobs_read", "jobs_clone", "jobs_change"),
        *("jobs_cancel", "jobs_hold", "jobs_release", "jobs_pause", "jobs_resume"),
        *("jobs_why", "jobs_events", "jobs_attempts", "jobs_samples", "jobs_cost"),
        *("jobs_log", "jobs_log_raw", "jobs_outputs", "jobs_output", "jobs_convert"),
        *("sets_list", "sets_read", "sets_cancel", "sets_rerun"),
        *("sessions_list", "sessions_read", "sessions_keep"),
    }
)

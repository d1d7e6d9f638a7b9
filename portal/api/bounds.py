"""Operations by what they take: those that stay within a project, those that want a password.

The rights of a bound token's user are those in its project alone (`accounts/permissions.py`), so
that a list or a name beyond it does not exist for the token. Beside that, an operation that is not
named here is refused to it, so that a new one about teams, money or the cluster is closed until
somebody has thought of it.
"""

from __future__ import annotations

from typing import Final

WITHIN_A_PROJECT: Final = frozenset(
    {
        *("me_read", "schema_read", "projects_list"),
        *("jobs_list", "jobs_create", "jobs_bulk_create", "jobs_read", "jobs_clone", "jobs_change"),
        *("jobs_cancel", "jobs_hold", "jobs_release", "jobs_pause", "jobs_resume"),
        *("jobs_why", "jobs_events", "jobs_attempts", "jobs_patch", "jobs_samples", "jobs_cost"),
        *("jobs_log", "jobs_log_raw", "jobs_outputs", "jobs_output", "jobs_convert"),
        *("sets_list", "sets_read", "sets_cancel", "sets_rerun"),
        *("sessions_list", "sessions_read", "sessions_keep"),
    }
)

# Who comes with a session does these after showing lately who they are, by signing in or by their
# password: they open doors, or change what others pay.
AFTER_A_PASSWORD: Final = frozenset(
    {
        *("tokens_create", "services_token"),
        *("address_ask", "users_address"),
        *("rates_create", "rates_propose", "rates_approve", "rates_decline", "rates_end"),
        *("rate_cards_create", "rate_cards_propose", "rate_cards_approve", "rate_cards_decline"),
        *("rate_cards_end", "rate_endings_approve", "rate_endings_decline"),
        *("periods_soft_close", "periods_close", "periods_reopen", "periods_correct"),
    }
)

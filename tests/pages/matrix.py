"""Who gets what from every page: the table that `test_matrix.py` walks.

A route without a row, or a row without its route, fails there. Columns: the owner; a member, lead
and finance of that team; an operator and a member of another; the administrator.
"""

from __future__ import annotations

from datetime import date, timedelta

from tests.pages import operating, seconded, starting, telling
from tests.pages.billed import ROWS as BILLED
from tests.pages.purchases import AHEAD
from tests.pages.rows import Row
from tests.pages.rows import get as _get
from tests.pages.rows import post as _post

#             alice bob lead fin  op carol root
_ALL = "       200 200 200 200 200 200 200"
_SEES = "      200 200 200 200 200 404 200"
_MEASURES = "  200 200 200 403 200 404 200"
_COSTS = "     200 200 200 200 403 404 200"
_READS = "     200 200 200 403 403 404 200"
_TEAM = "      200 200 200 200 404 404 200"
_LEADS = "     403 403 302 403 404 404 302"
_MOVES = "     302 403 302 403 302 404 302"
_OPERATES = "  403 403 403 403 302 403 302"
_ADMIN = "     403 403 403 403 403 403 302"
_BOOKS = "     403 403 403 403 403 403 200"
_KEEPS = "     403 403 403 403 403 403 302"
# bob decides in the lead's place.
_ASKER = "     302 403 403 404 403 404 403"
_PART = "      302 302 302 404 302 404 302"
_SELF = "      302 302 302 302 302 302 302"

_SOON, _LATER = (date.today() + timedelta(days=days) for days in (10, 20))

ROWS: tuple[Row, ...] = (
    _get("home", _ALL),
    _get("jobs:list", _ALL),
    _get("jobs:submit", _ALL),
    _get("jobs:detail", _SEES, "running"),
    _get("jobs:glance", _SEES, "running"),
    _get("jobs:why", _SEES, "queued"),
    _get("jobs:options", _SEES, "queued"),
    _get("jobs:before", _SEES, "queued"),
    _get("jobs:quote", _COSTS, "queued"),
    _get("jobs:events", _SEES, "running"),
    _get("jobs:metrics", _MEASURES, "running"),
    _get("jobs:series", _MEASURES, "running"),
    _get("jobs:cost", _COSTS, "running"),
    _get("jobs:spec", _READS, "running"),
    _get("jobs:logs", _READS, "running"),
    _get("jobs:log_lines", _READS, "running"),
    _get("jobs:log_find", _READS, "running", q="x"),
    _get("jobs:log_ranks", _READS, "running", q="x"),
    _get("jobs:progress", _READS, "running"),
    _get("jobs:log_download", _READS, "running"),
    _get("jobs:outputs", _READS, "running"),
    _get("jobs:output", _READS, "running", "output"),
    _get("jobs:patch", "200 200 200 404 404 404 200", "running", "attempt"),
    _post("jobs:columns", _SELF, column="gpus"),
    _post("jobs:marked", _SELF, act="none"),
    _post("jobs:cancel", _MOVES, "queued", reason="x"),
    _get("jobs:change", _SEES, "queued", time_limit="2h"),
    _post("jobs:change", _MOVES, "queued", time_limit="2h"),
    _post("jobs:hold", _MOVES, "queued", reason="x"),
    _post("jobs:pause", _MOVES, "running", reason="x"),
    _post("jobs:release", _MOVES, "held", reason="x"),
    *(Row(*one) for one in (*starting.ROWS, *seconded.ROWS)),
    *operating.ROWS,
    *telling.ROWS,
    _get("sessions:list", _ALL),
    _get("sessions:new", _ALL),
    _get("sessions:detail", _SEES, "session"),
    _post("sessions:connect", "302 403 403 403 403 404 403", "session"),
    _post("sessions:keep", "302 403 403 403 403 404 403", "session"),
    _post("sessions:stop", _MOVES, "session", reason="x"),
    _get("sets:detail", _SEES, "job_set"),
    _post("sets:cancel", _MOVES, "job_set", reason="x"),
    _post("sets:rerun", "302 403 302 403 403 404 302", "job_set"),
    _get("queue:list", _ALL),
    _post("queue:turn", _SELF, "pool", turn="submit"),
    _post("queue:pause", _OPERATES, "pool"),
    _post("queue:resume", _OPERATES, "pool"),
    _get("bookings:list", _ALL),
    _post("bookings:list", "403 403 200 403 200 403 200", nodes="0"),
    _post("bookings:cancel", "403 403 302 403 302 404 302", "booking"),
    _get("teams:list", _ALL),
    _post("teams:list", "403 403 403 403 302 403 302", name="Robots"),
    _get("teams:board", _TEAM, "team"),
    _get("teams:detail", _TEAM, "team"),
    _post("teams:rename", _LEADS, "team", name="Seeing"),
    _post("teams:cost_centre", "403 403 403 403 404 404 302", "team", **{"centre-code": "CC-1"}),
    _post("teams:project_create", _LEADS, "team", **{"project-name": "Fresh"}),
    _post("teams:project_archive", _LEADS, "team", "project", archived="true"),
    _post(
        "teams:invite",
        "403 403 200 403 404 404 200",
        "team",
        **{"invite-email": "new@example.org", "invite-role": "member"},
    ),
    _get("teams:retention", _TEAM, "team", "project"),
    _post(
        "teams:retention",
        "403 403 302 403 404 404 302",
        "team",
        "project",
        log_days="9",
        file_days="",
    ),
    _get("teams:prices", "404 404 200 200 404 404 200", "team"),
    _get("teams:quota", _SEES, "team"),
    _post(
        "teams:quota",
        "403 403 302 403 302 404 302",
        "team",
        owner="vision/digits",
        guaranteed="0",
        maximum="2",
    ),
    _post(
        "teams:budget",
        "403 403 422 403 302 404 302",
        "team",
        owner="vision/digits",
        gpu_hours="5",
        valid_from="2126-03-01 00:00",
        valid_until="2126-04-01 00:00",
        enforcement="warn",
        grace_s="600",
        carry_percent="0",
        action="notify",
        action_at="100",
    ),
    _post("teams:revoke", "404 404 302 404 404 404 302", "team", "invitation"),
    _post("teams:role", _LEADS, "team", "membership", role="finance"),
    _post("teams:remove", _LEADS, "team", "membership"),
    # root and `lead` both lead it, so each may go.
    _post("teams:leave", "302 302 302 302 404 404 302", "team"),
    _post("teams:below", _LEADS, "team", **{"below-name": "Edge"}),
    _post("teams:move", "404 404 404 404 404 404 302", "team", parent="apart"),
    _get("teams:services", _TEAM, "team"),
    _post("teams:services", _LEADS, "team", name="ci"),
    _post(
        "teams:service_token",
        "403 403 200 403 404 404 200",
        "team",
        "service",
        name="nightly",
        scopes="jobs:read",
        expires_in_days="9",
    ),
    _post("teams:service_revoke", _LEADS, "team", "service", "service_token"),
    _post("teams:service_end", _LEADS, "team", "service"),
    _get("invitation", _ALL, "secret"),
    *(_get(f"costs:{page}", _ALL) for page in ("overview", "waste")),
    _get("audit:list", "403 403 200 403 200 403 200"),
    _get("roles:list", "403 403 403 403 200 403 200"),
    _post("roles:list", _ADMIN, username="bob", role="auditor"),
    _post("roles:confirm", _ADMIN, username="waiting", role="admin"),
    _post("roles:take", _ADMIN, username="clerk", role="finance"),
    _get("finance:index", _ALL),
    _get("finance:periods", _BOOKS),
    _post("finance:period_act", _KEEPS, "past_month", "soft_close"),
    _get("finance:adjustments", _BOOKS),
    _post("finance:adjustments", _KEEPS, project="vision/digits", amount="5", reason="a day lost"),
    _post("finance:adjustment_act", _KEEPS, "adjustment", "decline"),
    _get("finance:prices", _BOOKS),
    _post("finance:prices", _KEEPS, price_per_gpu_hour="2.50"),
    _post("finance:price_act", "404 404 404 404 404 404 302", "rate", "decline"),
    _post("finance:price_end", "404 404 404 404 404 404 302", "held_rate"),
    _post("finance:card_end", "404 404 404 404 404 404 409", "card"),
    _post("finance:end_act", "404 404 404 404 404 404 302", "ending", "decline"),
    _post("finance:card_new", _KEEPS, team="unpriced", name="Own"),
    _post("finance:card_act", "404 404 404 404 404 404 302", "draft_card", "decline"),
    _get("finance:budgets", _BOOKS),
    _post(
        "finance:budgets",
        _KEEPS,
        owner="vision",
        amount="50",
        valid_from="2126-01-01 00:00",
        valid_until="2126-02-01 00:00",
        enforcement="reserve",
        grace_s="600",
        carry_percent="0",
        action="notify",
        action_at="100",
    ),
    _post("finance:budget_remove", _KEEPS, "budget", version="1"),
    _get("finance:terms", _BOOKS),
    _post(
        "finance:terms",
        _KEEPS,
        pool="default",
        idle="even",
        platform="none",
        guarantee_percent="50",
        refund_s="0",
        recovery="rates",
        reason="agreed",
    ),
    _post("finance:terms_act", "404 404 404 404 404 404 302", "terms", "decline"),
    _get("finance:assets", _BOOKS),
    _post(
        "finance:assets", _KEEPS, pool="default", name="x", paid="9", since="2126-01-01", months="2"
    ),
    _post("finance:asset_act", "404 404 404 404 404 404 302", "bought", "decline"),
    _get("finance:asset_retire", "404 404 404 404 404 404 200", "asset"),
    _post(
        "finance:asset_retire",
        "404 404 404 404 404 404 302",
        "asset",
        on="2126-02-01",
        reason="water",
    ),
    _get("finance:centres", _BOOKS),
    _get("finance:costs", _BOOKS),
    _post(
        "finance:costs",
        _KEEPS,
        pool="default",
        month=AHEAD,
        kind="energy",
        amount="3",
        note="meter",
    ),
    _post("finance:cost_act", "404 404 404 404 404 404 302", "cost", "decline"),
    _get("finance:report", "403 403 200 200 403 403 200", "report"),
    *BILLED,
    _get("finance:schedules", _ALL),
    _post("finance:schedules", _ALL),
    _post("finance:schedule_end", "404 404 404 404 404 404 302", "schedule"),
    _get("finance:exports", _ALL),
    _post("finance:exports", "403 403 302 302 403 403 302", slug="period-summary", format="csv"),
    # Files are their askers' alone.
    _get("finance:export_file", "404 404 404 404 404 404 404", "running"),
    _get("finance:focus", "403 403 403 403 403 403 200"),
    # No month is closed in this yard, so there is nothing to take home.
    _get("finance:focus_download", "403 403 403 403 403 403 404", "month", "focus"),
    _get("delegations:list", _ALL),
    _post("delegations:end", "404 302 302 404 404 404 302", "delegation"),
    _get("requests:list", _ALL),
    _get("requests:new", _ALL),
    _get("approvals", _ALL),
    _post("approve_several", _SELF),
    _get("requests:detail", "200 200 200 404 200 404 200", "asked"),
    _post("requests:submit", "302 404 404 404 404 404 404", "draft", version="1"),
    _post("requests:withdraw", _ASKER, "asked", version="3"),
    _post(
        "requests:revise",
        _ASKER,
        "asked",
        version="3",
        amount="3",
        valid_from=f"{_SOON:%Y-%m-%d}",
        valid_until=f"{_LATER:%Y-%m-%d}",
        justification="Later, and one more.",
    ),
    _post("requests:comment", _PART, "asked", text="Soon."),
    _post("requests:whatif", _PART, "asked"),
    _post(
        "requests:decide", "403 302 302 404 403 404 302", "asked", version="3", outcome="approve"
    ),
    _post("requests:assign", "403 302 302 404 403 404 302", "asked", version="3"),
    _post("requests:renew", "302 404 403 404 403 404 403", "granted"),
    _post("requests:revoke", "403 404 403 404 302 404 302", "granted", version="5"),
    _get("tokens:list", _ALL),
    _post("tokens:revoke", "302 404 404 404 404 404 404", "token"),
    _get("secrets:list", _ALL),
    _post("secrets:list", _ALL),
    _post("secrets:delete", "302 404 404 404 404 404 404", "kept"),
    _post("secrets:delete", "403 403 302 403 404 404 302", "kept_for_all"),
    _get("announcements:list", "404 404 404 404 200 404 200"),
    _post("announcements:list", "404 404 404 404 200 404 200"),
    _post("announcements:end", "404 404 404 404 302 404 302", "announcement"),
    _post("views:save", _SELF, table="jobs", name="Mine", query="q=user%3Ame"),
    _post("views:change", "302 404 404 404 404 404 404", "saved_view", action="default"),
    _get("profile", _ALL),
    _post("profile", _SELF, display_name="Somebody"),
    _post("theme", _SELF, theme="dark", next="/help/"),
    _post("keys", _SELF, keys="off"),
    _get("preview", "404 404 404 404 404 404 200"),
    _post("preview", "404 404 404 404 404 404 302", role="auditor"),
    _post("preview_end", _SELF),
    _get("scope", _ALL),
    _post("scope", _SELF, scope="", next="/jobs/"),
    _get("search", _ALL, q="train"),
    _get("jobs:compare", _ALL, id="1,2"),
    _get("help", _ALL),
    _get("welcome", "404 404 404 404 200 404 200"),
    _post("welcome", "404 404 404 404 403 404 302", price_per_gpu_hour="2.90"),
    _post("welcome_demo", "404 404 404 404 403 404 302", act="remove"),
    _get("styleguide", "404 404 404 404 404 404 200"),
)

# What people who are not signed in may open.
OPEN_ROUTES = frozenset({"invitation", "theme", "address_confirm", "address_undo"})

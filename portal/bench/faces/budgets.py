"""What a page may cost: milliseconds at the server, statements, KiB of compressed HTML.

Every page has a row; `manage.py bench pages` opens them over a long history, and a test counts the
statements of each for every kind of person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """`ms` are those that 19 of 20 requests stay below; `statements` do not depend on rows."""

    ms: int
    statements: int
    kib: int


_HOME = Budget(120, 10, 25)
_PALETTE = Budget(60, 3, 4)
_INBOX = Budget(80, 4, 10)
_SETTINGS = Budget(80, 5, 10)
_HELP = Budget(60, 4, 15)
# The design names none: it shows each part of every page, and grows with them.
_GUIDE = Budget(60, 4, 22)
_JOBS = Budget(150, 8, 40)
_COMPOSER = Budget(150, 9, 35)
# The design names none: it decides as many cycles as a request's preview, which has as much time.
# Each of up to five changes is checked as the change itself would be, by one or two statements.
_WHAT_HELPS = Budget(250, 17, 35)
_JOB = Budget(120, 9, 25)
_LOG = Budget(100, 4, 60)
_TAB = Budget(150, 6, 30)
# The design names a side panel and no budget: less than its page, for it is opened row by row.
_GLANCE = Budget(100, 8, 8)
_COMPARE = Budget(200, 8, 40)
_SET = Budget(150, 6, 40)
_SESSIONS = Budget(120, 7, 25)
_TEMPLATES = Budget(100, 5, 20)
# The times ahead are worked out, and about how many in a month.
_SCHEDULE = Budget(150, 8, 20)
# Two statements more where the line is longer than what is shown of it: its order, and one's own
# jobs behind.
_QUEUE = Budget(150, 9, 48)
_QUOTA = Budget(120, 8, 20)
_USAGE = Budget(150, 6, 25)
_TEAM = Budget(150, 10, 30)
_OF_TEAM = Budget(150, 8, 30)
_APPROVALS = Budget(120, 7, 25)
_REQUEST = Budget(250, 10, 25)
_DELEGATIONS = Budget(80, 4, 10)
_BOOKS = Budget(200, 10, 25)
_PERIODS = Budget(250, 10, 25)
_REPORT = Budget(400, 8, 60)
# A report by week, over months that may be closed or open, of days and hours summed or not.
_WASTE = Budget(_REPORT.ms, 11, 40)
_STATEMENT = Budget(200, 6, 30)
_LEDGER = Budget(200, 8, 25)
_MAP = Budget(200, 6, 120)
_TIMELINE = Budget(300, 6, 90)
# The design names none: it reads as much as the timeline, and who may have which node for how long.
_ROOM = Budget(300, 8, 60)
_NODES = Budget(150, 8, 30)
_ENROL = Budget(80, 4, 10)
_POOLS = Budget(150, 8, 25)
_SIMULATOR = Budget(500, 8, 40)
_OPERATING = Budget(200, 8, 30)

# By route.
BUDGETS: Mapping[str, Budget] = {
    "home": _HOME,
    "search": _PALETTE,
    # One more for who has statements of the books among it.
    "notifications:list": Budget(_INBOX.ms, 5, _INBOX.kib),
    # Which of what is muted may still be seen, and is named.
    "notification_settings": Budget(_SETTINGS.ms, 6, _SETTINGS.kib),
    "notification_hours": _SETTINGS,
    "channels:list": _SETTINGS,
    "channels:detail": _SETTINGS,
    "profile": _SETTINGS,
    "scope": _SETTINGS,
    "preview": _SETTINGS,
    "tokens:list": _SETTINGS,
    "secrets:list": _SETTINGS,
    "help": _HELP,
    "welcome": _HELP,
    "styleguide": _GUIDE,
    "invitation": _HELP,
    "address_confirm": _HELP,
    "address_undo": _HELP,
    "jobs:list": _JOBS,
    "jobs:submit": _COMPOSER,
    "jobs:start": _COMPOSER,
    "jobs:options": _WHAT_HELPS,
    # The design names none: it says what becomes of others, as a request's preview does, with as
    # much time. A cycle that may stop somebody reads who runs as well; and its price is asked for.
    "jobs:change": Budget(_REQUEST.ms, 11, _COMPOSER.kib),
    "jobs:quote": _COMPOSER,
    "jobs:detail": _JOB,
    "jobs:glance": _GLANCE,
    "jobs:why": _JOB,
    # Which teams are above both jobs'.
    "jobs:before": Budget(_JOB.ms, 10, _JOB.kib),
    "jobs:logs": _LOG,
    "jobs:log_lines": _LOG,
    "jobs:log_find": _LOG,
    "jobs:log_ranks": _LOG,
    # Where moments of a log lie is guessed, and corrected.
    "jobs:progress": Budget(_LOG.ms, 9, 10),
    "jobs:events": _TAB,
    "jobs:metrics": _TAB,
    "jobs:spec": _TAB,
    "jobs:cost": _TAB,
    "jobs:outputs": _TAB,
    "jobs:compare": _COMPARE,
    "sets:detail": _SET,
    "sessions:list": _SESSIONS,
    "sessions:new": _COMPOSER,
    "sessions:detail": _SESSIONS,
    "schedules:list": _TEMPLATES,
    "schedules:detail": _SCHEDULE,
    "schedules:new": _TEMPLATES,
    "schedules:change": _TEMPLATES,
    "templates:list": _TEMPLATES,
    "templates:detail": _TEMPLATES,
    "templates:new": _TEMPLATES,
    "templates:version": _TEMPLATES,
    "queue:list": _QUEUE,
    "approval_rules": _QUOTA,
    "requests:list": _QUOTA,
    "requests:new": _QUOTA,
    "requests:detail": _REQUEST,
    "approvals": _APPROVALS,
    "cancels:detail": _REQUEST,
    "delegations:list": _DELEGATIONS,
    "costs:overview": _USAGE,
    "costs:waste": _WASTE,
    "teams:list": _OF_TEAM,
    "teams:board": _TEAM,
    "teams:detail": _OF_TEAM,
    "teams:prices": _QUOTA,
    "teams:quota": _QUOTA,
    "teams:services": _OF_TEAM,
    "teams:retention": _OF_TEAM,
    "teams:idle": _OF_TEAM,
    "bookings:list": _TIMELINE,
    "cluster_map": _MAP,
    "cluster_timeline": _TIMELINE,
    "cluster_room": _ROOM,
    "nodes:list": _NODES,
    "nodes:detail": _NODES,
    "nodes:several": _NODES,
    "nodes:enrol": _ENROL,
    "pools:detail": _POOLS,
    "pools:idle": _POOLS,
    "simulator:list": _SIMULATOR,
    "simulator:detail": _SIMULATOR,
    "health": _OPERATING,
    "audit:list": _OPERATING,
    "roles:list": _OPERATING,
    "groups:list": _OPERATING,
    "users:list": _OPERATING,
    "users:detail": _OPERATING,
    "announcements:list": _OPERATING,
    "webhooks:list": _OPERATING,
    "finance:index": _BOOKS,
    "finance:periods": _PERIODS,
    "finance:report": _REPORT,
    "finance:statement": _STATEMENT,
    "finance:adjustments": _LEDGER,
    "finance:prices": _LEDGER,
    "finance:budgets": _LEDGER,
    "finance:terms": _LEDGER,
    "finance:assets": _LEDGER,
    "finance:asset_retire": _LEDGER,
    "finance:centres": _LEDGER,
    "finance:costs": _LEDGER,
    "finance:focus": _LEDGER,
    "finance:exports": _LEDGER,
    "finance:schedules": _LEDGER,
}

# What is fetched and is no page: points of charts, and files.
NOT_PAGES = frozenset(
    {
        "jobs:series",
        "jobs:log_download",
        "jobs:output",
        "jobs:patch",
        "nodes:series",
        "finance:export_file",
        "finance:focus_download",
    }
)

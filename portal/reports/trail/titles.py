"""Fields of audit events by the names that they have on the pages where they are changed."""

from __future__ import annotations

from collections.abc import Mapping

# By field, by `noun.field` or by the whole action; the longest that is here counts.
_TITLES: Mapping[str, str] = {
    "agent_version": "version of its agent",
    "below_percent": "does little below",
    "card_id": "number of its rate card",
    "control": "control total",
    "device_model": "GPU model",
    "display_name": "name shown to others",
    "email": "mail address",
    "ends_at": "until",
    "focus_version": "version of FOCUS",
    "from_month": "from",
    "gpu_model": "GPU model",
    "gpu_seconds": "GPU-hours",
    "head_hash": "hash there",
    "head_number": "chain up to entry",
    "held_mib": "held",
    "is_restatement": "prices the past anew",
    "is_superuser": "administrator",
    "jobs_of_others": "jobs of others that may end",
    "kinds": "tells of",
    "max_cost": "highest price",
    "price_per_gpu_hour": "price of one GPU-hour",
    "priority_ceiling": "highest tier",
    "rate_id": "number of the price",
    "sha256": "SHA-256",
    "size_mib": "size",
    "starts_at": "from",
    "team_id": "number of the team",
    "username": "user name",
    "valid_from": "from",
    "valid_until": "until",
    "waiting_jobs": "jobs that waited",
    "waiting_tasks": "tasks that waited",
    "whatif": "simulation",
    # Budgets.
    "budget.action": "an alert",
    "budget.action_at": "alert at",
    "budget.amount": "money",
    "budget.carry_percent": "carried over",
    "budget.commits_at": "commits a job's worst case",
    "budget.enforcement": "what it does",
    "budget.grace_s": "grace before a stop",
    "budget.ledger": "used, by the ledger",
    "budget.renewal": "renews itself",
    "budget.renews": "number of the one before",
    "budget.spent": "used",
    # Limits.
    "quota.borrow_limit": "borrows at most",
    "quota.lend_limit": "lends at most",
    "quota.max_gpus_per_job": "GPUs of one job",
    "quota.max_hours": "longest job",
    "quota.max_pending": "jobs waiting",
    "quota.max_running": "jobs running",
    "quota.max_sessions": "sessions open",
    "quota.maximum": "holds at most",
    # Terms of pools.
    "share.guarantee_percent": "by guarantee",
    "share.idle": "idle time is paid by",
    "share.platform": "drained, broken and silent time is paid by",
    "share.recovery": "teams pay",
    "share.refund_s": "credited before a preemption",
    "share.unreachable": "held by a silent node: paid by",
    "asset.months": "written off over",
    "asset.on": "first day out of service",
    "asset.since": "in use from",
    # Rules of scheduling, of requests and of GPUs that do little.
    "policy.always_admin": "an administrator always decides",
    "policy.auto_up_to": "needs nobody up to",
    "policy.delivery": "number of the message",
    "policy.half_life_s": "past use counts half after",
    "policy.head_patience_s": "patience",
    "policy.kind": "kind of request",
    "policy.money_limit": "finance too above, a month",
    "policy.most_days": "at most",
    "policy.name": "who is next",
    "policy.placement": "where jobs go",
    "policy.preempts": "may stop others",
    "policy.sla_hours": "for each step",
    "pool.policy.head_patience_s": "patience",
    "pool.policy.name": "who is next",
    "pool.policy.placement": "where jobs go",
    "pool.policy.preempts": "may stop others",
    "idle_rule.act": "what follows",
    "idle_rule.act_minutes": "after the warning",
    "idle_rule.first_minutes": "leaves out the first",
    "idle_rule.keep_hours": "the owner may keep it for",
    "idle_rule.warn_minutes": "warns after",
    "project.file_days": "files are kept for",
    "project.log_days": "logs are kept for",
    "project.sample_days": "readings of GPUs are kept for",
    # Requests.
    "request.amount": "how many",
    "request.monthly_cost": "cost a month",
    "request.outcome": "decision",
    "request.policy": "rule",
    "request.policy_version": "version of the rule",
    "request.reason_code": "why not",
    "request.route": "goes",
    "request.step": "decided",
    # Schedules.
    "schedule.late_within_s": "makes up for a missed time",
    "schedule.most_open": "at most at once",
    "schedule.overlap": "while an earlier one waits or runs",
    "schedule.pause_after": "pauses after failures in a row",
    "schedule.rule": "when",
    "schedule.run": "number of the job",
    "schedule.zone": "time zone",
    # Others.
    "books.for": "for the",
    "booking.window": "number of the maintenance",
    "delegation.deputy": "who acts",
    "delegation.giver": "for whom",
    "delegation.scope": "in what",
    "export.by": "by",
    "export.rhythm": "how often",
    "identity.issuer": "provider",
    "identity.subject": "who they are there",
    "licence.total": "in all",
    "pool.isolation": "keeps jobs apart",
    "period.booked_in": "booked in",
    "rate.kind": "for",
    "rate.priority": "goes before, as number",
    "template.forked_from": "made from",
    "view.query": "what it shows",
}
# What a field's name ends with, where the value says it.
_UNSAID = ("_at", "_s", "_mib")
_CAPITALS = {"gpu": "GPU", "gpus": "GPUs", "cpus": "CPUs", "ip": "IP"}


def title_of(action: str, field: str) -> str:
    """`share.propose`, `idle` → `idle time is paid by`; what has no name of its own by its words:
    `is_public` → `public`, `expires_at` → `expires`, `max_gpus` → `max GPUs`."""
    noun, _, verb = action.partition(".")
    for key in (f"{action}.{field}", f"{verb}.{field}", f"{noun}.{field}", field):
        if key in _TITLES:
            return _TITLES[key]
    plain = field.removeprefix("is_")
    for ending in _UNSAID:
        plain = plain.removesuffix(ending)
    return spelt(plain)


def spelt(code: str) -> str:
    """`gpus_per_node` → `GPUs per node`."""
    return " ".join(_CAPITALS.get(word, word) for word in code.replace("_", " ").split(" "))

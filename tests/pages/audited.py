"""Every kind of change that the audit tells of, with its fields and all their codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accounts.models import DelegationScope, OrganisationRole, RateKind, Role
from scheduler.engine.policy import Order, PlacementRule
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import (
    AlertAction,
    CommitsAt,
    CostKind,
    Enforcement,
    Recovery,
    Renewal,
    Threshold,
)
from scheduler.models.money.terms import Unreachable
from scheduler.spec.recurring.words import Overlap
from scheduler.states import (
    BookingState,
    DenyReason,
    DeviceHealth,
    EndReason,
    IdleAct,
    Isolation,
    JobState,
    NodeState,
    NoticeKind,
    Outcome,
    RequestKind,
    RequestState,
    ReviewStep,
    Tier,
    WaitReason,
)

Fields = Mapping[str, Sequence[Any]]

WHEN = "2026-11-03T12:00:00+00:00"
ROLES = [*Role.values, *OrganisationRole.values]
BUDGET: Fields = {
    "action": AlertAction.values,
    "action_at": Threshold.values,
    "carry_percent": [20],
    "commits_at": CommitsAt.values,
    "enforcement": Enforcement.values,
    "gpu_seconds": [3600, None],
    "grace_s": [600],
    "renewal": Renewal.values,
    "valid_from": [WHEN],
    "valid_until": ["2026-12-01T00:00:00+00:00", "2126-01-01T00:00:00+00:00"],
}
DECISIONS: Fields = {"decision": ["draft", "proposed", "approved", "declined"]}
RATE: Fields = {**DECISIONS, "kind": RateKind.values, "device_model": ["", "NVIDIA H100 80GB HBM3"]}
QUOTA: Fields = {
    "borrow_limit": [None, 2],
    "lend_limit": [None, 2],
    "max_hours": [None, 2],
    "pool": [None, "h100"],
    "gpu_model": ["", "H100"],
}
ORDER: Fields = {
    "name": list(Order),
    "placement": ["", *PlacementRule],
    "preempts": [None, True, False],
    "head_patience_s": [None, 600.0],
    "half_life_s": [None, 86400.0],
}
ROUTING: Fields = {
    "kind": ["", *RequestKind],
    "money_limit": [None, "2500.000000"],
    "always_admin": [True, False],
    "sla_hours": [48],
    "most_days": [365],
    "auto_up_to": [None, 8],
}
IDLE: Fields = {
    "act": list(IdleAct),
    "act_minutes": [None, 30],
    "below_percent": [5],
    "keep_hours": [24],
}
REQUEST: Fields = {"state": list(RequestState), "version": [2], "route": [list(ReviewStep)]}
DECIDED: Fields = {
    "step": [*ReviewStep, "policy"],
    "outcome": list(Outcome),
    "reason_code": ["", *DenyReason],
    "policy": [None, 4],
    "policy_version": [1],
    "monthly_cost": [None, "12.50"],
}
JOB: Fields = {"state": list(JobState), "reason": [*EndReason, *WaitReason]}
NEWS: Fields = {"kinds": [[], list(NoticeKind)], "is_paused": [True, False]}
SCHEDULE: Fields = {
    "overlap": list(Overlap),
    "late_within_s": [3600],
    "pause_after": [5],
    "most_open": [3],
}
ADDRESS: Fields = {"email": ["", "ada@example.org"]}
VERSION: Fields = {
    "head_number": [33],
    "head_hash": ["d37"],
    "version": [1],
    "booked_in": ["2026-11"],
}
# Kinds of change, and their fields, each with every code that it may have.
_ROWS: tuple[tuple[str, Fields], ...] = (
    (
        "address.ask address.cancel address.confirm address.follow address.send_again "
        "address.set address.undo",
        ADDRESS,
    ),
    ("adjustment.propose adjustment.post adjustment.decline", {"amount": ["1.50000"]}),
    (
        "asset.approve asset.decline rate.draft_card rate.propose_card rate.preview "
        "rate.approve_card rate.decline_card rate.propose_end share.approve share.decline",
        DECISIONS,
    ),
    ("asset.propose_end asset.decline_end asset.retire", {"on": ["2026-11-03"]}),
    ("budget.set budget.remove budget.renew", BUDGET),
    ("channel.add channel.change policy.change_webhook policy.add_webhook", NEWS),
    ("delegation.give delegation.end", {"scope": DelegationScope.values}),
    ("export.ask export.file export.mail", {"format": ["csv"]}),
    ("export.costs export.waste", {"by": ["gpu_model", "cost_centre"]}),
    ("export.schedule export.end_schedule", {"rhythm": ["weekly", "monthly"]}),
    ("group_rule.add group_rule.remove", {"role": ROLES, "team": [None]}),
    (
        "invitation.send invitation.accept invitation.revoke member.add "
        "member.change_role member.leave member.remove preview.begin role.give role.take "
        "role.confirm role.propose role.withdraw preview.end",
        {"role": ROLES},
    ),
    ("job.cancelled job.stop_requested job.held job.released", JOB),
    (
        "node.drain node.resume node.quarantine node.retire node.powered_off node.said_off "
        "node.placed node.labelled node.token_offered",
        {"state": list(NodeState)},
    ),
    (
        "node.device_cut node.device_quarantined node.device_returned",
        {"state": list(DeviceHealth)},
    ),
    ("bulk_cancel.refuse", {"proposed_by": ["ada"], "refused_by": ["ben"]}),
    ("channel.remove", {"host": ["hooks.example.org"]}),
    ("job.limit_changed", {"limit": ["1h30m"]}),
    (
        "node.issue_token node.revoke_token token.issue token.revoke token.refuse",
        {"expires_at": [WHEN]},
    ),
    (
        "node.offer_token node.renew_token policy.pause_webhook period.decline_reopening "
        "period.propose_reopening policy.end_announcement policy.remove_webhook "
        "session.connect session.keep session.ticket secret.delete",
        {},
    ),
    ("period.close period.correct ledger.anchor", VERSION),
    ("person.create person.deactivate", {"is_superuser": [True, False]}),
    ("person.reactivate service_account.end", {"is_active": [True]}),
    ("policy.request_routing policy.request_routing_end", ROUTING),
    ("policy.resume_webhook policy.announce", {"until_at": [None, WHEN]}),
    ("pool.idle_rule project.idle_rule", IDLE),
    ("project.archive project.reopen", {"is_archived": [True]}),
    ("queue.pause queue.resume", {"is_paused": [True]}),
    ("quota.grant quota.revoke_grant quota.remove quota.set", QUOTA),
    (
        "rate.set rate.propose rate.approve rate.decline rate.end rate.end_card "
        "rate.approve_end rate.decline_end",
        RATE,
    ),
    (
        "request.routed request.submitted request.granted request.asked request.drafted "
        "request.agreed request.denied request.question request.answered request.comment "
        "request.revised request.withdrawn request.reminded request.escalated request.expired",
        REQUEST,
    ),
    ("schedule.create schedule.change schedule.delete", SCHEDULE),
    ("schedule.resume schedule.trouble", {"times_skipped": [2]}),
    ("team.create team.move team.cost_centre", {"cost_centre": [""]}),
    ("template.create template.retire", {"is_public": [True, False]}),
    ("window.plan window.cancel", {"from_at": [WHEN], "cancelled_at": [WHEN]}),
    ("asset.propose", {"months": [48]}),
    ("booking.cancel", {"closed_as": list(BookingState), "jobs_of_others": [3]}),
    ("booking.edit", {"from_at": [WHEN], "gpus_per_node": [4], "closed_as": ["", *BookingState]}),
    ("booking.hurt", {"window": [3]}),
    ("booking.plan", {"until_at": [WHEN], "gpus_per_node": [0], "closed_as": [""]}),
    ("booking.release", {"closed_as": list(BookingState)}),
    ("books.count", {"for": ["check", "soft-close", "close", "correct", "preview"]}),
    ("budget.true_up", {"spent": [3600, "12.50 EUR"], "ledger": [7200], "head_number": [33]}),
    ("bulk_cancel.agree", {"noted_stops": [2], "left_out": [1], "agreed_by": ["ada"]}),
    ("bulk_cancel.propose", {"about": ["set:2", "person:3"]}),
    ("bulk_cancel.withdraw", {"jobs": [101]}),
    ("channel.try", {"host": ["hooks.example.org"]}),
    ("dataset.copy", {"held_mib": ["all", 2048], "node": ["gpu-07"]}),
    ("dataset.remove dataset.set", {"size_mib": [2048]}),
    ("demo.remove demo.ask_load demo.ask_remove", {"rows": [12]}),
    ("export.audit", {"from": ["2026-11-01"]}),
    ("export.focus", {"focus_version": ["1.2"]}),
    ("export.report", {"version": [None, 1]}),
    ("identity.link", {"issuer": ["https://id.example.org"], "subject": ["4711"]}),
    ("identity.unlink", {"issuer": ["https://id.example.org"]}),
    ("job.finish_by_changed", {"finish_by": ["no moment"]}),
    ("job.idle_kept", {"hours": [12]}),
    ("job.max_cost_changed", {"max_cost": ["none", "12.50 EUR"]}),
    ("job.refuse", {"fields": [["gpus_per_node", "max_cost"]]}),
    ("job.request_changed", {"request": ["2 nodes"]}),
    ("job.tell_late", {"ran_until": [WHEN]}),
    ("job.tier_changed", {"tier": [tier.name.lower() for tier in Tier]}),
    ("licence.remove licence.set", {"total": [5]}),
    ("node.enrol", {"agent_version": ["0.1.0"]}),
    ("node.recount", {"nodes": [3]}),
    ("period.reopen", {"state": ["soft_closed", "closed", "reopened"]}),
    ("period.set_charging", {"charging": ["showback", "chargeback"]}),
    ("period.soft_close", {"state": ["open", "soft_closed"]}),
    ("person.cancel_jobs", {"waiting_jobs": [4]}),
    ("person.rename", {"display_name": ["Ada"]}),
    ("policy.send_again", {"delivery": [4]}),
    ("policy.set pool.policy", ORDER),
    ("pool.create project.create", {"description": [""]}),
    ("pool.headroom", {"gpu_model": ["H100"], "headroom": [0, 4]}),
    ("pool.isolate", {"isolation": list(Isolation)}),
    ("project.retention", {"log_days": [None, 30], "file_days": [30], "sample_days": [None]}),
    ("quota.set_caps", {"max_gpus_per_job": [None, 8], "max_running": [4], "max_pending": [4]}),
    ("quota.set_ceiling", {"priority_ceiling": [None, *(int(tier) for tier in Tier)]}),
    ("quota.set_weight", {"weight": [1.5]}),
    ("request.assigned", {"assigned_to": [None, "ada"]}),
    ("request.decide", DECIDED),
    ("request.renew", {"renews": ["REQ-1"]}),
    ("request.simulate", {"amount": [8]}),
    ("scenario.ask", {"changes": [["policy=las", "lose:3@3600", "preempt=no"]], "pool": [""]}),
    ("scenario.forget", {"name": [""]}),
    ("schedule.pause", {"paused": [True, False]}),
    ("schedule.run", {"run": [117]}),
    ("schedule.take_over", {"times_skipped": [2], "without_variables": [["TOKEN"]]}),
    ("secret.hand", {"names": [["hub-token"]]}),
    ("secret.set", {"replaced": [True, False]}),
    ("service_account.make", {"username": ["svc-ci"]}),
    ("set.cancel", {"waiting_tasks": [12]}),
    ("set.rerun", {"indexes": ["0-3"]}),
    (
        "share.propose",
        {
            "from_month": ["1970-01", "2026-11"],
            "guarantee_percent": [50],
            "idle": list(IdlePolicy),
            "platform": list(IdlePolicy),
            "recovery": Recovery.values,
            "refund_s": [0, 3600],
            "unreachable": Unreachable.values,
        },
    ),
    ("share.propose_cost", {"kind": CostKind.values}),
    ("statement.disputed", {"account": ["team:4"]}),
    ("team.rename", {"name": ["Vision"]}),
    ("template.version", {"rules": [{"gpus_per_node": "locked"}]}),
    ("view.share", {"query": ["q=state%3Afailed&sort=-ended_at"]}),
)
KINDS: Mapping[str, Fields] = {kind: fields for kinds, fields in _ROWS for kind in kinds.split()}

"""What is sent to every writing operation of the API: the word of `targets` in its address, and a
body that would do if the person may."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from accounts.models import User
from accounts.services import delegate, issue_service_token, issue_token, make_service_account
from accounts.services.identities.rules import add_group_rule
from scheduler.models import MaintenanceWindow
from scheduler.services import books
from scheduler.services.books.costs.retiring import retire_asset
from scheduler.services.composing.drafts import save_draft
from scheduler.services.inbox import add_webhook
from scheduler.services.nodes import issue_node_token
from scheduler.services.saved import save_view
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.grants import add_grant
from scheduler.services.sharing.limits import set_quota
from scheduler.services.sharing.policies import set_pool_policy
from scheduler.services.sites.datasets import set_dataset
from scheduler.services.sites.licences import set_licence
from scheduler.services.sites.windows import plan_window
from tests import requesting, scenes
from tests.accounts.pricing import desk_of
from tests.factories import person, told
from tests.rights import of_people, of_starts
from tests.rights.scene import Scene, Side

_SOON, _LATER = (f"{date.today() + timedelta(days=days)}T00:00:00Z" for days in (20, 30))
_PERIOD = {"valid_from": _SOON, "valid_until": _LATER}
_AHEAD = f"{date.today().year + 1}-01"
_ASSET = {"pool": "{pool}", "name": "x", "paid": "5", "since": "2126-01-01", "months": 3}
_COST = {"pool": "{pool}", "month": _AHEAD, "kind": "staff", "amount": "5", "note": "x"}
_JOB = {"name": "x", "project": "{path}", "script": "true"}
_WISH = {"owner": "{team}", "kind": "guaranteed", "amount": 1, "pool": "{pool}",
         "justification": "We need it now."}  # fmt: skip
_BOOKING = {"owner": "{path}", "pool": "{pool}", "nodes": 1, "gpus_per_node": 1}
_REVISED = {"version": 3, "amount": 1, "justification": "Later, and one less.", **_PERIOD}
_WINDOW = {"pool": "{pool}", "from_at": _SOON, "until_at": _LATER}
_HOURS = {"owner": "{team}", "gpu_hours": 3, **_PERIOD}

# "method route": the word of the target in the address, and the body.
SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "post jobs/": ("", _JOB),
    "post jobs/bulk/": ("", {"jobs": [_JOB]}),
    "post jobs/quote/": ("", _JOB),
    "post jobs/convert/": ("", {"text": "#SBATCH -N2"}),
    "post jobs/<int:pk>/retry-rules/": ("queued", {}),
    "post jobs/<int:pk>/cancel/": ("queued", {"reason": "x"}),
    "post jobs/<int:pk>/hold/": ("queued", {"reason": "x"}),
    "post jobs/<int:pk>/change/": ("queued", {"time_limit": "2h"}),
    "post jobs/<int:pk>/release/": ("held", {"reason": "x"}),
    "post jobs/<int:pk>/pause/": ("running", {"reason": "x"}),
    "post jobs/<int:pk>/resume/": ("held", {"reason": "x"}),
    "post jobs/<int:pk>/clone/": ("queued", {}),
    "delete drafts/<int:pk>/": ("job_draft", {}),
    "post sets/<int:pk>/cancel/": ("job_set", {"reason": "x"}),
    "post sets/<int:pk>/rerun/": ("job_set", {}),
    **{f"{verb} jobs/<int:pk>/watch/": ("queued", {}) for verb in ("post", "delete")},
    **{f"{verb} sets/<int:pk>/watch/": ("job_set", {}) for verb in ("post", "delete")},
    "post bulk-cancels/": ("", {"jobs": ["{queued}"], "reason": "x"}),
    "post bulk-cancels/<int:pk>/agree/": ("bulk_cancel", {}),
    "post bulk-cancels/<int:pk>/refuse/": ("bulk_cancel", {"reason": "x"}),
    "post bulk-cancels/<int:pk>/withdraw/": ("bulk_cancel", {}),
    "post sessions/<int:pk>/ticket/": ("session", {}),
    "post sessions/<int:pk>/keep/": ("session", {}),
    "post notifications/read/": ("", {}),
    "post notifications/mute/": ("", {"subject": "job:1"}),
    "post notifications/settings/": (
        "",
        {"kind": "job_failed", "in_inbox": True, "by_mail": False},
    ),
    "post notifications/hours/": ("", {"mail": "daily"}),
    "post channels/": ("", {"dialect": "slack", "url": "https://hooks.slack.com/services/x"}),
    "post channels/<int:pk>/": ("channel", {"name": "x"}),
    "delete channels/<int:pk>/": ("channel", {}),
    "post channels/<int:pk>/test/": ("channel", {}),
    "post webhooks/": ("", {"url": "https://chat.example.org/new"}),
    "post webhooks/<int:pk>/": ("webhook", {"is_paused": True}),
    "delete webhooks/<int:pk>/": ("webhook", {}),
    "post webhooks/deliveries/<int:pk>/again/": ("delivery", {}),
    "post views/": ("", {"table": "jobs", "name": "mine", "query": ""}),
    "delete views/<int:pk>/": ("view", {}),
    "post projects/<slug:team>/<slug:project>/retention/": ("path", {"log_days": 9}),
    "post projects/<slug:team>/<slug:project>/retention/trial/": ("path", {"log_days": 9}),
    "post jobs/<int:pk>/keep/": ("running", {"hours": 1, "reason": "x"}),
    "post projects/<slug:team>/<slug:project>/idle-rule/": ("path", {"act": "tell"}),
    "delete projects/<slug:team>/<slug:project>/idle-rule/": ("path", {}),
    "post projects/<slug:team>/<slug:project>/idle-rule/trial/": ("path", {"act": "tell"}),
    "post pools/<str:name>/idle-rule/": ("pool", {"act": "tell"}),
    "delete pools/<str:name>/idle-rule/": ("pool", {}),
    "post pools/<str:name>/idle-rule/trial/": ("pool", {"act": "tell"}),
    "post secrets/": (
        "",
        {"name": "hub-token", "value": "a long enough value", "project": "{path}"},
    ),
    "delete secrets/<int:pk>/": ("none", {}),
    "post pools/": ("", {"name": "fresh"}),
    "post pools/<str:name>/isolation/": ("pool", {"isolation": ""}),
    "post pools/<str:name>/policy/": ("pool", {"name": "las"}),
    "delete pools/<str:name>/policy/": ("pool", {}),
    "post nodes/tokens/": ("", {"pool": "{pool}"}),
    "delete nodes/tokens/<int:pk>/": ("node_token", {}),
    "post nodes/<str:name>/gpus/<int:index>/": ("node", {"action": "check"}),
    "post nodes/<str:name>/drain/": ("node", {"reason": "fan"}),
    "post nodes/<str:name>/quarantine/": ("node", {"reason": "rattles"}),
    "post nodes/<str:name>/resume/": ("node", {}),
    "post nodes/<str:name>/retire/": ("node", {}),
    "post nodes/<str:name>/renew-token/": ("node", {}),
    "post nodes/<str:name>/off/": ("node", {"reason": "unplugged"}),
    "post nodes/<str:name>/place/": ("node", {"rack": "r1"}),
    "post nodes/<str:name>/labels/": ("node", {"labels": {"disk": "fast"}}),
    "post windows/": ("", _WINDOW),
    "post windows/<int:pk>/cancel/": ("window", {}),
    "post bookings/": ("", {**_BOOKING, "from_at": _SOON, "until_at": _LATER}),
    "post bookings/<int:pk>/": ("booking", {"version": 1, "note": "x"}),
    "post bookings/<int:pk>/cancel/": ("booking", {"reason": "x"}),
    "post licences/": ("", {"name": "cae", "total": 3}),
    "post licences/<str:name>/remove/": ("licence", {}),
    "post queue/<slug:pool>/order/": ("pool", {"jobs": []}),
    "post simulator/": ("", {"pool": "{pool}", "hours": 1, "changes": ["policy=las"]}),
    "delete simulator/<int:pk>/": ("scenario", {}),
    "post datasets/": ("", {"name": "mnist", "size": "1GiB"}),
    "post datasets/<str:name>/copies/": ("dataset", {"node": "{node}"}),
    "post datasets/<str:name>/remove/": ("dataset", {}),
    "post queue/<slug:pool>/pause/": ("pool", {}),
    "post queue/<slug:pool>/resume/": ("pool", {}),
    "post rates/": ("", {"device_model": "", "price_per_gpu_hour": "2"}),
    "post rates/proposals/": ("", {"device_model": "", "price_per_gpu_hour": "2"}),
    "post rates/<int:pk>/approve/": ("rate", {}),
    "post rates/<int:pk>/preview/": ("rate", {}),
    "post rates/<int:pk>/decline/": ("rate", {}),
    "post rates/<int:pk>/end/": ("held_rate", {}),
    "post rates/cards/<int:pk>/end/": ("card", {}),
    "post rates/endings/<int:pk>/approve/": ("ending", {}),
    "post rates/endings/<int:pk>/decline/": ("ending", {}),
    "post rates/cards/": ("", {"name": "Own", "team": "unpriced"}),
    "post rates/cards/<int:pk>/propose/": ("draft_card", {}),
    "post rates/cards/<int:pk>/approve/": ("card", {}),
    "post rates/cards/<int:pk>/decline/": ("draft_card", {}),
    "post finance/periods/<str:month>/soft-close/": ("month", {}),
    "post finance/periods/<str:month>/close/": ("month", {}),
    "post finance/periods/<str:month>/reopen/": ("month", {"reason": "x"}),
    "post finance/periods/<str:month>/correct/": ("month", {"reason": "x"}),
    "post finance/files/": ("", {"slug": "job-cost", "period": "2126-01", "format": "csv"}),
    "post finance/adjustments/": ("", {"project": "{path}", "amount": "1", "reason": "x"}),
    "post finance/adjustments/<int:pk>/post/": ("adjustment", {}),
    "post finance/adjustments/<int:pk>/decline/": ("adjustment", {}),
    "post finance/assets/": ("", _ASSET),
    "post finance/assets/<int:pk>/approve/": ("bought", {}),
    "post finance/assets/<int:pk>/decline/": ("bought", {}),
    "post finance/assets/<int:pk>/retire/": ("asset", {"on": "2126-02-01", "reason": "x"}),
    "post finance/assets/<int:pk>/retire/approve/": ("leaving", {}),
    "post finance/assets/<int:pk>/retire/decline/": ("leaving", {}),
    "post finance/costs/": ("", _COST),
    "post finance/costs/<int:pk>/approve/": ("cost", {}),
    "post finance/costs/<int:pk>/decline/": ("cost", {}),
    "post finance/charging/<str:month>/": ("month", {"charging": "chargeback"}),
    "post finance/terms/": ("", {"pool": "{pool}", "idle": "even"}),
    "post finance/terms/<int:pk>/approve/": ("terms", {}),
    "post finance/terms/<int:pk>/decline/": ("terms", {}),
    "post rules/quotas/": ("", {"owner": "{team}", "maximum": 3}),
    "delete rules/quotas/<int:pk>/": ("quota", {}),
    "post rules/quotas/<int:pk>/grants/": ("quota", {"maximum": 1, **_PERIOD}),
    "post rules/grants/<int:pk>/revoke/": ("grant", {}),
    "post rules/budgets/": ("", _HOURS),
    "post rules/budgets/<int:pk>/remove/": ("budget", {}),
    "post rules/caps/": ("", {"owner": "{team}", "max_sessions": 3}),
    "post rules/ceilings/": ("", {"owner": "{team}", "tier": "urgent"}),
    "post rules/headroom/": ("", {"pool": "{pool}", "gpus": 0}),
    "post rules/policies/": ("", {"name": "fair"}),
    **of_starts.SENT,
    **of_people.SENT,
    "post groups/": ("", {"group": "ml", "role": "finance"}),
    "post groups/preview/": ("", {"group": "ml", "team": "{team}", "role": "member"}),
    "delete groups/<int:pk>/": ("group_rule", {}),
    "post roles/": ("", {"username": "nobody", "role": "auditor"}),
    "post roles/confirm/": ("", {"username": "nobody", "role": "admin"}),
    "post roles/take/": ("", {"username": "finance", "role": "finance"}),
    "post teams/": ("", {"name": "Fresh", "parent": "{team}"}),
    "post teams/<slug:slug>/cost-centre/": ("team", {"code": "CC-1"}),
    "post teams/<slug:slug>/move/": ("team", {"parent": ""}),
    "post teams/<slug:slug>/services/": ("team", {"name": "nightly"}),
    "post teams/<slug:slug>/services/<str:username>/end/": ("team", {}),
    "post teams/<slug:slug>/services/<str:username>/tokens/": (
        "team",
        {"name": "x", "scopes": ["jobs:read"]},
    ),
    "post delegations/": (
        "",
        {
            "deputy": "nobody",
            "scope": "approve_requests",
            "team": "{team}",
            "starts_at": _SOON,
            "ends_at": _LATER,
        },
    ),
    "post delegations/<int:pk>/end/": ("delegation", {}),
    "post requests/": ("", _WISH),
    "post requests/policies/": ("", {"sla_hours": 5}),
    "post requests/policies/end/": ("", {"kind": "borrow"}),
    "post requests/<int:pk>/submit/": ("draft", {"version": 1}),
    "post requests/<int:pk>/revise/": ("asked", _REVISED),
    "post requests/<int:pk>/withdraw/": ("asked", {"version": 3}),
    "post requests/<int:pk>/answer/": ("asked", {"version": 3, "text": "x"}),
    "post requests/<int:pk>/decide/": ("asked", {"version": 3, "outcome": "approve"}),
    "post requests/<int:pk>/assign/": ("asked", {"version": 3, "to": ""}),
    "post requests/<int:pk>/comment/": ("asked", {"text": "Soon."}),
    "post requests/<int:pk>/renew/": ("asked", {}),
    "post requests/<int:pk>/revoke/": ("asked", {"version": 3}),
    "post requests/<int:pk>/whatif/": ("asked", {}),
    "post tokens/": ("", {"name": "x", "scopes": ["jobs:read"]}),
    "delete tokens/<int:pk>/": ("token", {}),
}


def targets(scene: Scene) -> dict[str, dict[str, Any]]:
    """The words of both sides: what the scene has, and what only writing needs."""
    second, root = person("proposer", is_superuser=True), scene.people["admin"]
    person("nobody")
    pool = scene.own.queued.pool
    set_pool_policy(actor=root, pool=pool, name="fifo")
    bought = {"actor": second, "pool": pool, "paid": Decimal(5), "since": date(2126, 1, 1)}
    leaving = books.propose_asset(name="old", months=9, **bought)
    books.approve_spending(actor=root, row=leaving)
    retire_asset(actor=second, asset=leaving, on=date(2126, 2, 1), reason="x")
    cost = books.propose_cost(
        actor=second, pool=pool, month=_AHEAD, kind="staff", amount=Decimal(5), note="x"
    )
    now = timezone.now()
    begin, end = now + timedelta(days=50), now + timedelta(days=51)
    window: MaintenanceWindow = plan_window(actor=root, pool=pool, from_at=begin, until_at=end)
    hook, _ = add_webhook(actor=root, url="https://chat.example.org/hook")
    shared = {
        "webhook": hook.pk,
        "delivery": told(hook, "k", now).pk,
        "bought": books.propose_asset(name="new", months=9, **bought).pk,
        "leaving": leaving.pk,
        "cost": cost.pk,
        "adjustment": books.propose_adjustment(
            actor=second, project=scene.own.project, amount=Decimal(1), reason="x"
        ).pk,
        **desk_of(second),
        "terms": books.propose_terms(actor=second, pool=pool, idle="even").pk,
        "window": window.pk,
        "licence": set_licence(actor=root, name="solver", total=2).name,
        "group_rule": add_group_rule(actor=root, group="all", team=None, role="finance").pk,
        "dataset": set_dataset(actor=root, name="laion", size="1GiB").name,
        "index": 0,
        "node_token": issue_node_token(actor=root, pool=pool)[0].pk,
        "none": 987_654,
    }
    return {
        name: {**side.words, **shared, **_of_side(side, root)}
        for name, side in (("own", scene.own), ("foreign", scene.foreign))
    }


def _of_side(side: Side, root: User) -> dict[str, Any]:
    """Things of one team; its member's and its lead's, as the scene names them."""
    now, somebody = timezone.now(), User.objects.get(pk=side.job.owner_id)
    lead = User.objects.get(username=f"lead-of-{side.team.slug}")
    begin, end = now + timedelta(days=1), now + timedelta(days=9)
    quota = set_quota(actor=root, owner=side.team, maximum=9)
    grant = add_grant(actor=root, quota=quota, maximum=1, valid_from=begin, valid_until=end)
    budget = set_budget(actor=root, owner=side.team, gpu_hours=9, valid_from=begin, valid_until=end)
    service = make_service_account(actor=lead, team=side.team, name=f"bot-{side.team.slug}")
    issue_service_token(actor=lead, account=service, name="t", scopes=["jobs:read"])
    delegation = delegate(
        actor=lead, deputy=somebody, scope="approve_requests", starts_at=begin, ends_at=end
    )
    token, _ = issue_token(actor=somebody, name="laptop", scopes=["jobs:read"])
    return {
        "held": scenes.submit(somebody, side.project, hold=True, now=now).pk,
        "draft": requesting.ask(somebody, side.team, is_draft=True, now=now).pk,
        "job_draft": save_draft(actor=somebody, key="k", fields={"name": "x"}).pk,
        "quota": quota.pk,
        "grant": grant.pk,
        "budget": budget.pk,
        "service": service.username,
        "delegation": delegation.pk,
        "token": token.pk,
        "view": save_view(actor=somebody, table="jobs", name="ours", query="").pk,
        "path": f"{side.team.slug}/{side.project.slug}",
    }


def has_sides(operation: str, words: dict[str, dict[str, Any]]) -> bool:
    """Whether own and foreign differ in what is sent."""
    word, body = SENT[operation]
    own, foreign = (json.dumps([words[side].get(word), body]) for side in ("own", "foreign"))
    return own != foreign or any(word in own for word in ("{team}", "{path}", "{queued}"))

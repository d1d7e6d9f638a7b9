"""Which group at the identity provider gives which role: looked at first, then kept."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.models import GroupRule, Team, User
from accounts.permissions import can
from accounts.selectors import get_visible_team
from accounts.services.identities.rules import (
    add_group_rule,
    get_group_rule,
    group_rules,
    preview_adding,
    preview_removing,
    remove_group_rule,
    require_keeper,
)
from portal.forms.people import GroupRuleForm
from portal.pages.access import page, said_and_back, viewer_of

SHOWN = 100
SHOWN_RULES = 200
_DIGITS = 18


@page("GET", "POST")
def group_list(request: HttpRequest) -> HttpResponseBase:
    """The first 200 rules by group. `?group=&team=&role=` shows what one more would do, `?remove=`
    one less; a form with the same fields adds it."""
    viewer = viewer_of(request)
    rules = group_rules(viewer)
    asked = {name: request.GET.get(name, "") for name in GroupRuleForm.base_fields}
    sent = request.POST if request.method == "POST" else asked if any(asked.values()) else None
    form, effects = GroupRuleForm(sent), None
    going = _going(request, viewer)
    if form.is_bound and form.is_valid():
        try:
            wanted = _wanted(viewer, form)
            if request.method == "POST":
                messages.success(request, _added(add_group_rule(actor=viewer, **wanted)))
                return redirect("groups:list")
            effects = preview_adding(viewer=viewer, **wanted)
        except Forbidden:
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
    elif going is not None:
        effects = preview_removing(viewer=viewer, rule=going)
    context = {
        "rules": rules[:SHOWN_RULES],
        "count": len(rules),
        "form": form,
        "going": going,
        "may_change": can(viewer, "administer_cluster", None),
        "provider_name": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "claim": settings.OIDC_GROUPS_CLAIM,
        "effects": None if effects is None else effects[:SHOWN],
        "more": max(0, len(effects or []) - SHOWN),
    }
    return render(request, "people/groups.html", context)


@page("POST")
def group_remove(request: HttpRequest, pk: int) -> HttpResponseBase:
    """End a rule."""
    viewer = viewer_of(request)
    rule = get_group_rule(viewer, pk)

    def act() -> str:
        remove_group_rule(actor=viewer, rule=rule)
        return (
            f"The rule for {rule.group} is gone; what it gave goes with everybody's next sign-in."
        )

    return said_and_back(request, act, "groups:list")


def _wanted(viewer: User, form: GroupRuleForm) -> dict[str, Any]:
    given = form.cleaned_data
    return {"group": given["group"], "team": _team(viewer, given["team"]), "role": given["role"]}


def _team(viewer: User, slug: str) -> Team | None:
    require_keeper(viewer)
    if not slug:
        return None
    try:
        return get_visible_team(viewer, slug)
    except NotFound as missing:
        raise NotFound(f"There is no team {slug!r}.", field="team") from missing


def _going(request: HttpRequest, viewer: User) -> GroupRule | None:
    number = request.GET.get("remove", "")
    if not number:
        return None
    try:
        if number.isascii() and number.isdigit() and len(number) < _DIGITS:
            return get_group_rule(viewer, int(number))
    except NotFound:
        pass
    request.GET.note_odd("remove", "choose a rule of the list")  # type: ignore[attr-defined]
    return None


def _added(rule: GroupRule) -> str:
    return f"{rule.group} gives it from everybody's next sign-in on."

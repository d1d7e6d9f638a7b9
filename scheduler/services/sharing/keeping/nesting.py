"""What is guaranteed below is guaranteed above: nobody gives away what they do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from scheduler.models import Account, Quota
from scheduler.selectors.sharing.promised.granted import least_left
from scheduler.services.errors import Invalid
from scheduler.services.sharing.tree import children, parent_of
from scheduler.states import moment_words


def check_tree(
    account: Account,
    scope: Mapping[str, object],
    guaranteed: int,
    maximum: int | None,
    *,
    is_bound: bool,
    now: datetime,
) -> None:
    """What is guaranteed below must be guaranteed above, and no maximum lie above its parent's."""
    parent = parent_of(account)
    above = Quota.objects.filter(account=parent, **scope).first() if parent else None
    if is_bound and guaranteed and not (above and above.guaranteed):
        raise Invalid(
            "Your team is guaranteed nothing of these to give from. Ask for that first.",
            field="guaranteed",
        )
    if parent is not None and above is not None:
        if above.guaranteed:
            siblings = list(Quota.objects.filter(account__in=children(parent), **scope))
            _check_left(above, siblings, account, guaranteed, now)
        if maximum is not None and above.maximum is not None and maximum > above.maximum:
            raise Invalid(
                f"A maximum of {maximum} has no effect: that of the account above is "
                f"{above.maximum}.",
                field="maximum",
            )
    kept = list(Quota.objects.filter(account__in=children(account), **scope))
    below = sum(quota.guaranteed for quota in kept)
    _check_given(account, scope, kept, guaranteed, now)
    if maximum is not None and maximum < below:
        raise Invalid(
            f"The accounts below are guaranteed {below}, above this maximum. Lower those first.",
            field="maximum",
        )


def _check_given(
    account: Account,
    scope: Mapping[str, object],
    kept: Sequence[Quota],
    guaranteed: int,
    now: datetime,
) -> None:
    """Raises Invalid where less becomes guaranteed than the accounts below have of it, now or once
    a grant begins or ends. A higher guarantee always may; none at all bounds nobody."""
    own = Quota.objects.filter(account=account, **scope).first()
    quota = own or Quota(account=account, **scope)
    is_raised = own is not None and guaranteed >= own.guaranteed
    quota.guaranteed = guaranteed
    left = least_left(quota, kept, "guaranteed", since=now) if guaranteed else None
    if left is None or left.free >= 0 or is_raised:
        return
    then = f" from {moment_words(left.at)}" if left.at > now else ""
    least = guaranteed - left.free
    raise Invalid(
        f"The accounts below are guaranteed {left.below}{then}; guarantee {least} or lower theirs.",
        field="guaranteed",
    )


def _check_left(
    above: Quota, siblings: Sequence[Quota], account: Account, guaranteed: int, now: datetime
) -> None:
    """Raises Invalid where more becomes guaranteed than the account above has left, now or once a
    grant begins or ends. A lower guarantee always may: it stops nobody."""
    own = next((one for one in siblings if one.account_id == account.pk), None)
    was = own.guaranteed if own else 0
    left = least_left(above, siblings, "guaranteed", since=now)
    if left is None or guaranteed <= was or guaranteed - was <= left.free:
        return
    granted = left.granted.get(own.pk, 0) if own else 0
    its = f" and the {granted} of its grants" if granted else ""
    then = f" from {moment_words(left.at)}" if left.at > now else ""
    raise Invalid(
        f"With the {left.below - was - granted} of the others{its}{then} this guarantees more "
        f"than the {left.above} of the account above. Raise that one first, or give "
        f"{was + max(0, left.free)} at most.",
        field="guaranteed",
    )

"""The matrix of rights over everything that writes: for every operation of the API, who may.

A row names its class; a class says what the seven kinds of people get on what is their own team's
and on another's. y: past the rights; n: told that they may not; -: told that there is no such
thing. An operation without a row fails, and so does a row without its operation. Pages that write
have their rows in `tests/pages/matrix.py`.
"""

from __future__ import annotations

from typing import Final

# member lead above finance operator admin auditor: of their own team's, of another team's.
CLASSES: Final[dict[str, tuple[str, str]]] = {
    # Who works there or leads above; for others there is no such thing.
    "submit": (
        "y y y - - y -",
        "- - - - - y -",
    ),
    # Who works there, leads above, or runs the cluster; others are told that they may not.
    "move": (
        "y y y n y y n",
        "- - - n y y n",
    ),
    # Who works there or leads above.
    "rerun": (
        "y y y n n y n",
        "- - - n n y n",
    ),
    # Who leads it or leads above.
    "lead": (
        "n y y n - y n",
        "- - - n - y n",
    ),
    # There is none here.
    "nothing_there": (
        "- - - - - - -",
        "- - - - - - -",
    ),
    # Who runs the cluster.
    "operate": (
        "n n n n y y n",
        "n n n n y y n",
    ),
    # Who runs the cluster; nobody else is told whether it is there.
    "scenario": (
        "- - - - y y -",
        "- - - - y y -",
    ),
    # Who leads it or above, or runs the cluster.
    "book": (
        "n y y n y y n",
        "- - - n y y n",
    ),
    # Administrators.
    "admin": (
        "n n n n n y n",
        "n n n n n y n",
    ),
    # Administrators; nobody else is told whether it is there.
    "admin_alone": (
        "- - - - - y -",
        "- - - - - y -",
    ),
    # Finance; a proposed price is nobody else's.
    "prices": (
        "- - - y - y -",
        "- - - y - y -",
    ),
    # Finance.
    "books": (
        "n n n y n y n",
        "n n n y n y n",
    ),
    # Finance; a month nobody has touched is none to reopen.
    "books_of_no_month": (
        "n n n - n - n",
        "n n n - n - n",
    ),
    # Finance; of others only who sees the team is told that they may not.
    "books_of_team": (
        "n n n y - y n",
        "- - - y - y n",
    ),
    # A thing of the books: finance; auditors see it and may not.
    "books_thing": (
        "- - - y - y n",
        "- - - y - y n",
    ),
    # Who runs the cluster, on what teams have.
    "operate_theirs": (
        "n n n n y y n",
        "- - - n y y n",
    ),
    # Administrators; here nobody waits for one.
    "nobody_waits": (
        "n n n n n - n",
        "n n n n n - n",
    ),
    # Who leads both ends, and administrators.
    "move_team": (
        "n n n n - y n",
        "- - - n - y n",
    ),
    # Giver and deputy.
    "deputy": (
        "y y - - - y -",
        "- - - - - y -",
    ),
    # Whose it is.
    "own": (
        "y - - - - - -",
        "- - - - - - -",
    ),
    # Who asked, and nobody else.
    "asker": (
        "y n n n n n n",
        "- - - n n n n",
    ),
    # Who leads it or above, where it waits for a lead.
    "decide": (
        "n y y n n y n",
        "- - - n n y n",
    ),
    # Who might end these jobs as well; for others there is no such proposal.
    "second": (
        "y y y - y y -",
        "- - - - y y -",
    ),
    # The same, of what is somebody else's.
    "second_of_another": (
        "n n n - n n -",
        "- - - - n n -",
    ),
    # Who has to do with a request; auditors read.
    "take_part": (
        "y y y y y y n",
        "- - - y y y n",
    ),
    # Who sees it: it is in no state for it, which is said before the right.
    "see": (
        "y y y y y y y",
        "- - - y y y y",
    ),
    # Whoever signs in, for themselves.
    "everybody": (
        "y y y y y y y",
        "y y y y y y y",
    ),
}

WRITES: Final[dict[str, str]] = {
    "post jobs/": "submit",
    "post jobs/bulk/": "submit",
    "post jobs/quote/": "submit",
    "post jobs/convert/": "everybody",
    "post jobs/<int:pk>/cancel/": "move",
    "post jobs/<int:pk>/hold/": "move",
    "post jobs/<int:pk>/change/": "move",
    "post jobs/<int:pk>/release/": "move",
    "post jobs/<int:pk>/pause/": "move",
    "post jobs/<int:pk>/resume/": "move",
    "post jobs/<int:pk>/clone/": "submit",
    "post templates/": "lead",
    "post templates/<slug:slug>/versions/": "lead",
    "post templates/<slug:slug>/retire/": "lead",
    "post templates/<slug:slug>/fork/": "lead",
    "delete drafts/<int:pk>/": "own",
    "post sets/<int:pk>/cancel/": "move",
    "post sets/<int:pk>/rerun/": "rerun",
    "post bulk-cancels/": "move",
    "post bulk-cancels/<int:pk>/agree/": "second",
    "post bulk-cancels/<int:pk>/refuse/": "second",
    "post bulk-cancels/<int:pk>/withdraw/": "second_of_another",
    "post sessions/<int:pk>/ticket/": "asker",
    "post sessions/<int:pk>/keep/": "asker",
    "post projects/<slug:team>/<slug:project>/retention/": "lead",
    "post projects/<slug:team>/<slug:project>/retention/trial/": "lead",
    "post jobs/<int:pk>/keep/": "rerun",
    "post projects/<slug:team>/<slug:project>/idle-rule/": "lead",
    "delete projects/<slug:team>/<slug:project>/idle-rule/": "lead",
    "post projects/<slug:team>/<slug:project>/idle-rule/trial/": "lead",
    "post pools/<str:name>/idle-rule/": "operate",
    "delete pools/<str:name>/idle-rule/": "operate",
    "post pools/<str:name>/idle-rule/trial/": "operate",
    "post secrets/": "lead",
    "delete secrets/<int:pk>/": "nothing_there",
    "post pools/": "operate",
    "post pools/<str:name>/isolation/": "operate",
    "post pools/<str:name>/policy/": "operate",
    "delete pools/<str:name>/policy/": "operate",
    "post nodes/tokens/": "operate",
    "delete nodes/tokens/<int:pk>/": "operate",
    "post nodes/<str:name>/gpus/<int:index>/": "operate",
    "post nodes/<str:name>/drain/": "operate",
    "post nodes/<str:name>/quarantine/": "operate",
    "post nodes/<str:name>/resume/": "operate",
    "post nodes/<str:name>/retire/": "operate",
    "post nodes/<str:name>/renew-token/": "operate",
    "post nodes/<str:name>/off/": "operate",
    "post nodes/<str:name>/place/": "operate",
    "post nodes/<str:name>/labels/": "operate",
    "post windows/": "operate",
    "post windows/<int:pk>/cancel/": "operate",
    "post bookings/": "book",
    "post bookings/<int:pk>/": "book",
    "post bookings/<int:pk>/cancel/": "book",
    "post licences/": "operate",
    "post licences/<str:name>/remove/": "operate",
    "post queue/<slug:pool>/order/": "everybody",
    "post simulator/": "operate",
    "delete simulator/<int:pk>/": "scenario",
    "post datasets/": "operate",
    "post datasets/<str:name>/copies/": "operate",
    "post datasets/<str:name>/remove/": "operate",
    "post queue/<slug:pool>/pause/": "operate",
    "post queue/<slug:pool>/resume/": "operate",
    "post rates/": "admin",
    "post rates/proposals/": "books",
    "post rates/<int:pk>/approve/": "prices",
    "post rates/<int:pk>/preview/": "prices",
    "post rates/<int:pk>/decline/": "prices",
    "post rates/<int:pk>/end/": "prices",
    "post rates/cards/<int:pk>/end/": "prices",
    "post rates/endings/<int:pk>/approve/": "prices",
    "post rates/endings/<int:pk>/decline/": "prices",
    "post rates/cards/": "books",
    "post rates/cards/<int:pk>/propose/": "prices",
    "post rates/cards/<int:pk>/approve/": "prices",
    "post rates/cards/<int:pk>/decline/": "prices",
    "post finance/periods/<str:month>/soft-close/": "books",
    "post finance/periods/<str:month>/close/": "books",
    "post finance/periods/<str:month>/reopen/": "books_of_no_month",
    "post finance/periods/<str:month>/correct/": "books",
    "post finance/files/": "everybody",
    "post finance/adjustments/": "books",
    "post finance/adjustments/<int:pk>/post/": "books",
    "post finance/adjustments/<int:pk>/decline/": "books",
    "post finance/assets/": "books",
    "post finance/assets/<int:pk>/approve/": "books_thing",
    "post finance/assets/<int:pk>/decline/": "books_thing",
    "post finance/assets/<int:pk>/retire/": "books_thing",
    "post finance/assets/<int:pk>/retire/approve/": "books_thing",
    "post finance/assets/<int:pk>/retire/decline/": "books_thing",
    "post finance/costs/": "books",
    "post finance/costs/<int:pk>/approve/": "books_thing",
    "post finance/costs/<int:pk>/decline/": "books_thing",
    "post finance/charging/<str:month>/": "books",
    "post finance/terms/": "books",
    "post finance/terms/<int:pk>/approve/": "books_thing",
    "post finance/terms/<int:pk>/decline/": "books_thing",
    "post rules/quotas/": "operate_theirs",
    "delete rules/quotas/<int:pk>/": "operate_theirs",
    "post rules/quotas/<int:pk>/grants/": "operate_theirs",
    "post rules/grants/<int:pk>/revoke/": "operate",
    "post rules/budgets/": "operate_theirs",
    "post rules/budgets/<int:pk>/remove/": "operate_theirs",
    "post rules/caps/": "operate_theirs",
    "post rules/ceilings/": "operate_theirs",
    "post rules/headroom/": "operate",
    "post rules/policies/": "operate",
    "post users/<str:username>/deactivate/": "admin_alone",
    "post users/<str:username>/reactivate/": "admin_alone",
    "post groups/": "admin",
    "post groups/preview/": "admin",
    "delete groups/<int:pk>/": "admin",
    "post roles/": "admin",
    "post roles/confirm/": "nobody_waits",
    "post roles/take/": "admin",
    "post teams/": "lead",
    "post teams/<slug:slug>/cost-centre/": "books_of_team",
    "post teams/<slug:slug>/move/": "move_team",
    "post teams/<slug:slug>/services/": "lead",
    "post teams/<slug:slug>/services/<str:username>/end/": "lead",
    "post teams/<slug:slug>/services/<str:username>/tokens/": "lead",
    "post delegations/": "lead",
    "post delegations/<int:pk>/end/": "deputy",
    "post requests/": "submit",
    "post requests/policies/": "admin",
    "post requests/policies/end/": "admin",
    "post requests/<int:pk>/submit/": "own",
    "post requests/<int:pk>/revise/": "asker",
    "post requests/<int:pk>/withdraw/": "asker",
    "post requests/<int:pk>/answer/": "asker",
    "post requests/<int:pk>/decide/": "decide",
    "post requests/<int:pk>/assign/": "decide",
    "post requests/<int:pk>/comment/": "take_part",
    "post requests/<int:pk>/renew/": "asker",
    "post requests/<int:pk>/revoke/": "operate_theirs",
    "post requests/<int:pk>/whatif/": "take_part",
    "post webhooks/": "admin_alone",
    "post webhooks/<int:pk>/": "admin_alone",
    "delete webhooks/<int:pk>/": "admin_alone",
    "post webhooks/deliveries/<int:pk>/again/": "admin_alone",
    "post views/": "everybody",
    "delete views/<int:pk>/": "own",
    "post notifications/read/": "everybody",
    "post notifications/mute/": "nothing_there",
    "post notifications/settings/": "everybody",
    "post notifications/hours/": "everybody",
    "post channels/": "everybody",
    "post channels/<int:pk>/": "own",
    "delete channels/<int:pk>/": "own",
    "post channels/<int:pk>/test/": "own",
    "post tokens/": "everybody",
    "delete tokens/<int:pk>/": "own",
}

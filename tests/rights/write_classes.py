"""Who gets what from an operation that writes: the classes that `writes.py` names."""

from __future__ import annotations

from typing import Final

# y: past the rights, done or in the way of something else; n: may not; -: finds no such thing.
CELLS = {400: "-", 401: "-", 403: "n", 404: "-", 405: "-", 422: "-"}
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
    # Who sees it.
    "seen": (
        "y y y y y y y",
        "- - - y y y y",
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

"""What time alone brings about, before each decision."""

from __future__ import annotations

from datetime import datetime

from scheduler.services import reaping
from scheduler.services.bookings import end_booked_jobs, release_unused
from scheduler.services.budgets.pledges import settle_pledges
from scheduler.services.budgets.watching import watch_budgets
from scheduler.services.finishing.paying import keep_prices
from scheduler.services.finishing.watching import keep_moments
from scheduler.services.holding.letting_go import heal_held, release_due
from scheduler.services.logs import finish_undrained
from scheduler.services.nodes.left_behind import give_up_left_behind, give_up_untold
from scheduler.services.preempting.claims import drop_claims
from scheduler.services.sites.following import follow_windows
from scheduler.services.timeline.bookings import follow_bookings


def reap(*, now: datetime) -> int:
    """Carry out everything that is due; returns how much it was. One query each if nothing is.

    1. Nodes not heard from: silent, later lost, which ends their attempts; and those of earlier
       instances of nodes, and of nodes that were never heard.
    2. Assignments that no node took up: taken back.
    3. Attempts far beyond their time limit: asked to stop.
    4. Ended attempts whose log comes no more: ended all the same.
    5. Nodes that do not end what they were asked to stop: out of service.
    6. Draining nodes that run nothing any more: drained.
    7. Rooms kept for jobs that will not take them up: given back.
    8. Held jobs whose begin time has come, or that nobody let go: into the line.
    9. Budgets that commit at the submit: who waits without a pledge makes one, or is held.
    10. Budgets: alerts, hard stops, what is carried over.
    11. Bookings that nobody uses: given back; jobs of those that end: stopped.
    12. Jobs that have to be finished by a moment: ended or told of, as they want it.
    13. Jobs with a highest price: stopped, or not tried again, once it is reached.
    """
    return (
        reaping.mark_silent(now=now)
        + reaping.mark_lost(now=now)
        + give_up_left_behind(now=now)
        + give_up_untold(now=now)
        + reaping.revoke_unaccepted(now=now)
        + reaping.stop_overdue(now=now)
        + finish_undrained(now=now)
        + reaping.quarantine_unstoppable(now=now)
        + reaping.finish_drains(now=now)
        + drop_claims(now=now)
        + release_due(now=now)
        + heal_held(now=now)
        + settle_pledges(now=now)
        + watch_budgets(now=now)
        + follow_windows(now=now)
        + release_unused(now=now)
        + end_booked_jobs(now=now)
        + follow_bookings(now=now)
        + keep_moments(now=now)
        + keep_prices(now=now)
    )

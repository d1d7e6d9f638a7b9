"""The books: closing months, posting what is owed, and checking that nobody changed it.

Months are closed and corrected here, entries are only ever added, and everything needs somebody who
keeps the books (`keep_books`); what changes money by hand needs two people.
"""

from scheduler.services.books.adjusting import (
    decline_adjustment,
    post_adjustment,
    propose_adjustment,
)
from scheduler.services.books.budgets.truing import true_up_budgets
from scheduler.services.books.closing import close_period, correct_period, soft_close_period
from scheduler.services.books.costs.recovery import set_charging
from scheduler.services.books.costs.retiring import (
    approve_retirement,
    decline_retirement,
    retire_asset,
)
from scheduler.services.books.costs.spending import (
    approve_spending,
    decline_spending,
    propose_asset,
    propose_cost,
)
from scheduler.services.books.months.behind import count_behind, do_countings
from scheduler.services.books.months.restating import approve_price, preview_price
from scheduler.services.books.months.trying import Trial, try_period
from scheduler.services.books.policies import (
    approve_terms,
    decline_terms,
    propose_terms,
    set_share_policy,
)
from scheduler.services.books.posting import CloseBlocked
from scheduler.services.books.reconciling import reconcile_books
from scheduler.services.books.reopening import reopen_period
from scheduler.services.books.verifying import LedgerReport, verify_ledger

__all__ = [
    "CloseBlocked",
    "LedgerReport",
    "Trial",
    "approve_price",
    "approve_retirement",
    "approve_spending",
    "approve_terms",
    "close_period",
    "correct_period",
    "count_behind",
    "decline_adjustment",
    "decline_retirement",
    "decline_spending",
    "decline_terms",
    "do_countings",
    "post_adjustment",
    "preview_price",
    "propose_adjustment",
    "propose_asset",
    "propose_cost",
    "propose_terms",
    "reconcile_books",
    "reopen_period",
    "retire_asset",
    "set_charging",
    "set_share_policy",
    "soft_close_period",
    "true_up_budgets",
    "try_period",
    "verify_ledger",
]

"""Months of the books on a terminal: close, correct, reopen, export; and who pays for idle time."""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.errors import DomainError
from accounts.models import User
from accounts.selectors import person_named
from accounts.selectors.rates import get_proposed_rate
from accounts.services.audit import Subject, record
from scheduler.ledger.currencies import from_minor
from scheduler.ledger.focus.columns import DEFAULT_VERSION, VERSIONS
from scheduler.models import PricePreview
from scheduler.selectors.books.desk import price_previews
from scheduler.selectors.books.focus import focus_rows
from scheduler.selectors.cluster import get_visible_pool
from scheduler.services import books
from scheduler.services.books.policies import OFFERED


class Command(BaseCommand):
    """The same services and rules as everywhere: `--by` must be somebody who keeps the books."""

    help = "Soft-close, close, correct, reopen or export a month; say who pays for idle time."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do with which month or pool, in whose name."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb in ("soft-close", "close", "correct", "reopen", "export"):
            words = verbs.add_parser(verb)
            words.add_argument("month", help="such as 2026-11")
            words.add_argument("--by", required=True, help="user name of a bookkeeper")
            if verb in ("correct", "reopen"):
                words.add_argument("--reason", default="", help="why; goes into the books")
            if verb == "reopen":
                words.add_argument("--decline", action="store_true", help="it stays closed")
            if verb == "export":
                words.add_argument("--focus", choices=VERSIONS, default=DEFAULT_VERSION)
                words.add_argument("--issuer", default="Trainyard", help="who writes the bills")
        price = verbs.add_parser("price", help="approve a price for the past, or see what it moves")
        price.add_argument("rate", type=int, help="its number, as /api/v1/rates/proposals/ has it")
        price.add_argument("--by", required=True, help="user name of a bookkeeper")
        price.add_argument("--preview", action="store_true", help="show what it moves, and no more")
        verbs.add_parser("reconcile", help="what is done every night, now; fails where it differs")
        share = verbs.add_parser("share", help="who pays for a pool's idle and broken time")
        share.add_argument("pool")
        share.add_argument("--by", required=True, help="user name of a bookkeeper")
        share.add_argument("--idle", choices=[str(p) for p in OFFERED], default="")
        share.add_argument("--platform", choices=[str(p) for p in OFFERED], default="")

    def handle(self, *args: Any, **options: Any) -> None:
        """Fails with what stands in the way."""
        if options["verb"] == "reconcile":
            self._reconcile()
            return
        person = person_named(options["by"])
        if person is None:
            raise CommandError(f"There is nobody called {options['by']}.")
        try:
            self._do(person, options["verb"], options)
        except books.CloseBlocked as blocked:
            for finding in blocked.findings:
                self.stderr.write(f"{finding.subject}: {finding.words}")
            raise CommandError(f"{options['month']} cannot be closed yet.") from None
        except DomainError as refused:
            raise CommandError(refused.detail) from None

    def _reconcile(self) -> None:
        books.true_up_budgets()
        run = books.reconcile_books()
        for check in run.checks:
            held = "holds" if check["holds"] else f"does not hold: {check['words']}"
            self.stdout.write(f"{check['what']}: {held}")
        if not run.holds:
            raise CommandError("The books do not tie together; see above.")

    def _do(self, person: User, verb: str, options: dict[str, Any]) -> None:
        if verb == "share":
            pool = get_visible_pool(person, options["pool"])
            idle, platform = options["idle"], options["platform"]
            terms = books.set_share_policy(actor=person, pool=pool, idle=idle, platform=platform)
            self.stdout.write(f"{terms}.")
            if terms.decision != "approved":
                self.stdout.write(f"Another bookkeeper has to approve them (terms {terms.pk}).")
        elif verb == "price":
            self._price(person, options["rate"], is_preview=options["preview"])
        elif verb == "export":
            rows = focus_rows(
                person, options["month"], version=options["focus"], issuer=options["issuer"]
            )
            month, version = options["month"], options["focus"]
            record(person, "export.focus", Subject("period", "", month), after={"version": version})
            csv.writer(sys.stdout).writerows(rows)
        else:
            reason, decline = options.get("reason", ""), options.get("decline", False)
            self.stdout.write(_move(person, verb, options["month"], reason, decline=decline))

    def _price(self, person: User, pk: int, *, is_preview: bool) -> None:
        rate = get_proposed_rate(person, pk)
        looked: PricePreview | None
        if is_preview:
            looked = books.preview_price(actor=person, rate=rate)
        else:
            books.approve_price(actor=person, rate=rate)
            looked = price_previews(person, [rate]).get(rate.pk)
        for move in looked.moves if looked else ():
            words = (move["month"], move["name"], move["before"], move["after"], move["change"])
            self.stdout.write("\t".join(words))
        if looked and looked.trouble:
            if is_preview:
                raise CommandError(looked.trouble)
            self.stderr.write(f"What it moves could not be counted: {looked.trouble}")
        self.stdout.write("Nothing is posted." if is_preview else "The price is approved.")


def _move(person: User, verb: str, month: str, reason: str, *, decline: bool) -> str:
    if verb == "soft-close":
        return f"{month} is {books.soft_close_period(actor=person, period=month).state}."
    if verb == "reopen":
        row = books.reopen_period(actor=person, period=month, reason=reason, decline=decline)
        waits = (
            "what was proposed is off" if decline else "a closed month waits for a second person"
        )
        return f"{month} is {row.state}; {waits}."
    if verb == "correct":
        posted = books.correct_period(actor=person, period=month, reason=reason)
        return f"{len(posted)} correction entries were posted."
    closed = books.close_period(actor=person, period=month)
    owed = from_minor(closed.control, closed.period.currency)
    return (
        f"{month} is closed as version {closed.version}: {closed.lines} lines, "
        f"{closed.statements.count()} statements, {owed} {closed.period.currency}."
    )

"""Requests for quota: ask, look, decide."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson, because
from scheduler.states import amount_words

app = typer.Typer(
    help="List your requests for quota; ask for more, look at one, decide on one.",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(help="The request's number.")]
Seen = Annotated[
    int | None, typer.Option("--version", help="The version you have seen; else the latest.")
]
_HEADS = ("REQUEST", "STATE", "WHAT", "AMOUNT", "FOR", "ASKED BY", "SINCE", "UNTIL")


@app.callback()
def list_requests(
    context: typer.Context,
    show: Annotated[
        str, typer.Option(help="mine, inbox (waits for me), assigned (to me) or all.")
    ] = "mine",
    as_json: AsJson = False,
) -> None:
    """List your requests for quota; ask for more, look at one, decide on one."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/requests/", show=show)
    if as_json:
        print_json(found)
        return
    print_table(_HEADS, [_cells(one) for one in found], "There are no such requests.")


def _cells(one: dict[str, Any]) -> list[object]:
    return [
        one["id"],
        one["state"].replace("_", " "),
        one["kind"],
        amount_words(one["kind"], one["amount"]),
        one["owner"],
        one["asked_by"],
        ago(one["created_at"]),
        one["valid_until"][:10],
    ]


@app.command()
def ask(
    owner: Annotated[str, typer.Argument(help="team or team/project.")],
    amount: Annotated[int, typer.Argument(help="GPUs; else hours, GPU-hours, or money.")],
    why: Annotated[str, typer.Option("--why", help="What it is for.")],
    kind: Annotated[
        str,
        typer.Option(
            help="guaranteed, borrow, maximum or access (GPUs), walltime (hours more of time "
            "limit), budget (GPU-hours), money (of a budget), reservation (GPUs, by the hour)."
        ),
    ] = "guaranteed",
    pool: Annotated[str, typer.Option(help="Only this pool.")] = "",
    gpu_model: Annotated[str, typer.Option(help="Only GPUs of this model.")] = "",
    begin: Annotated[
        str, typer.Option("--from", help="When it begins, such as 2026-12-01T08:00Z; else now.")
    ] = "",
    days: Annotated[int, typer.Option(help="For so many days.")] = 90,
    hours: Annotated[
        float | None, typer.Option(help="For so many hours instead; a reservation needs them.")
    ] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Keep it; submit it later.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask for quota."""
    if kind == "reservation" and hours is None:
        raise typer.BadParameter("say for how many hours it is booked", param_hint="--hours")
    start = _moment(begin, "--from") if begin else datetime.now(UTC)
    try:
        until = start + (timedelta(days=days) if hours is None else timedelta(hours=hours))
    except (OverflowError, ValueError):
        option = "--days" if hours is None else "--hours"
        raise typer.BadParameter("is no time that it can last", param_hint=option) from None
    body: dict[str, Any] = {
        "owner": owner,
        "kind": kind,
        "amount": amount,
        "pool": pool,
        "gpu_model": gpu_model,
        "justification": why,
        "is_draft": draft,
        "valid_from": start.isoformat() if begin else None,
        "valid_until": until.isoformat(),
    }
    _post("/requests/", body, as_json)


@app.command()
def submit(number: Number, version: Seen = None, as_json: AsJson = False) -> None:
    """Send a draft on its way."""
    _change(number, "submit", version, {}, as_json)


def _or_over(figure: object) -> str:
    """What is left is never less than nothing: `-3.89` is `3.89 over`."""
    text = str(figure)
    return f"{text[1:]} over" if text.startswith("-") else text


@app.command()
def whatif(number: Number, as_json: AsJson = False) -> None:
    """What it would cost, leave of the budget, and do to others; ask again until it is done."""
    with Api(load_config()) as api:
        found = api.post(f"/requests/{number}/whatif/", {})
    if as_json:
        print_json(found)
        return
    answer = found["answer"]
    if not answer:
        words = f"{found['progress']}, {found['done_steps']} of {found['all_steps']} steps done"
        print_line(f"{words}; ask again.")
        return
    heads = ["", "AS IT IS", *(f"+{amount}" for amount in answer["question"]["amounts"][1:])]
    booking = answer.get("booking") or {}
    rows = {
        f"cost a month, {answer['currency']}": answer["monthly_cost"],
        "GPUs booked then": booking.get("booked"),
        "GPU-hours of the budget with all committed, left or over": answer["budget_hours_left"],
        "budget with all committed, left or over": answer.get("budget_money_left"),
        "guaranteed to teams": answer["capacity"]["guaranteed"],
        "oversubscribed by": answer["capacity"]["oversubscribed_by"],
    }
    rows |= {
        f"nine of ten of {team['name']} wait at most, s": team["p90_s"] for team in answer["teams"]
    }
    cells = [[name, *map(_or_over, found)] for name, found in rows.items() if found]
    print_table(heads, cells, "")
    if booking.get("clash"):
        print_line(booking["clash"])
    for note in answer["notes"]:
        print_line(note)


@app.command()
def show(number: Number, as_json: AsJson = False) -> None:
    """One request and what was decided on it."""
    with Api(load_config()) as api:
        found = api.get(f"/requests/{number}/")
    if as_json:
        print_json(found)
        return
    _say(found)
    print_line(found["justification"])
    for one in found["decisions"]:
        amount = f" {amount_words(found['kind'], one['amount'])}" if one["amount"] else ""
        print_line(f"  {one['step']}: {one['outcome']}{amount} by {one['decided_by']}")
        if one["comment"]:
            print_line(f"    {one['comment']}")


@app.command()
def decide(
    number: Number,
    outcome: Annotated[str, typer.Argument(help="approve, less, deny or ask.")],
    version: Seen = None,
    amount: Annotated[int | None, typer.Option(help="How many, for less.")] = None,
    reason: Annotated[str, typer.Option(help="A reason code, to deny.")] = "",
    until: Annotated[str, typer.Option(help="When it ends, for shorter: 2026-12-01T18:00Z.")] = "",
    comment: Annotated[str, typer.Option(help="Sent to whoever asked.")] = "",
    as_json: AsJson = False,
) -> None:
    """Decide on a request that waits for you."""
    body: dict[str, Any] = {"outcome": outcome, "reason_code": reason, "comment": comment}
    if amount is not None:
        body["amount"] = amount
    if until:
        body["valid_until"] = _moment(until, "--until").isoformat()
    _change(number, "decide", version, body, as_json)


@app.command()
def assign(
    number: Number,
    to: Annotated[str, typer.Argument(help="Who may decide, by username; empty: whoever may.")],
    version: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Hand a request that waits to one of those who may decide on it."""
    _change(number, "assign", version, {"to": to}, as_json)


@app.command()
def withdraw(number: Number, version: Seen = None, as_json: AsJson = False) -> None:
    """Take a request of yours back."""
    _change(number, "withdraw", version, {}, as_json)


@app.command()
def answer(
    number: Number,
    text: Annotated[str, typer.Argument(help="What you answer.")],
    version: Seen = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question."""
    _change(number, "answer", version, {"text": text}, as_json)


@app.command()
def renew(number: Number, as_json: AsJson = False) -> None:
    """A draft for the time after its grant."""
    _post(f"/requests/{number}/renew/", {}, as_json)


@app.command()
def revoke(
    number: Number,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason", metavar="TEXT", help="Why; needed where jobs of others end with a booking."
        ),
    ] = None,
    version: Seen = None,
    as_json: AsJson = False,
) -> None:
    """End what was granted before its time; what runs goes on, but for jobs inside a booking."""
    _change(number, "revoke", version, because(reason), as_json)


def _moment(text: str, option: str) -> datetime:
    """A time with its zone; without one it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        words = f"{text!r} is no time; write one such as 2026-12-01T08:00Z"
        raise typer.BadParameter(words, param_hint=option) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _change(
    number: int, verb: str, version: int | None, body: dict[str, Any], as_json: bool
) -> None:
    """Name the version that was seen; without one, that of a look right before."""
    with Api(load_config()) as api:
        if version is None:
            version = api.get(f"/requests/{number}/")["version"]
        found = api.post(f"/requests/{number}/{verb}/", {**body, "version": version})
    _told(found, as_json)


def _post(path: str, body: dict[str, Any], as_json: bool) -> None:
    with Api(load_config()) as api:
        found = api.post(path, body)
    _told(found, as_json)


def _told(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    _say(found)


def _say(found: dict[str, Any]) -> None:
    words = found["state"].replace("_", " ")
    whose = f", assigned to {found['assigned_to']}" if found["assigned_to"] else ""
    what = f"{amount_words(found['kind'], found['amount'])} {found['kind']} for {found['owner']}"
    print_line(f"REQ-{found['id']} (version {found['version']}): {what}, {words}{whose}")

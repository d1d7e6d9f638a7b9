"""Programs that are told what people are told; for administrators."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import ago, print_json, print_line, print_listed, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List webhooks; add, change or remove one, see and repeat deliveries (administrators).",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(help="Its number, as listed.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="News it gets; may be repeated.")]
_HEADS = ("NO", "TO", "TOLD OF", "STATE", "SENT", "WAITING", "GIVEN UP", "LAST")
_DELIVERY = ("NO", "TO", "NEWS", "MADE", "TRIES", "OUTCOME")


@app.callback()
def list_webhooks(context: typer.Context, as_json: AsJson = False) -> None:
    """List webhooks; add, change or remove one, see and repeat deliveries (administrators)."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/webhooks/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["id"],
            one["host"],
            ", ".join(one["kinds"]) or "everything",
            "paused" if one["paused_at"] else "on",
            one["sent"],
            one["waiting"],
            one["lost"],
            ago(one["last_at"]) if one["last_at"] else "never",
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "No program is told anything.")


@app.command()
def add(
    url: Annotated[str, typer.Argument(help="Such as https://chat.example.org/hook.")],
    kind: Kinds = None,
    as_json: AsJson = False,
) -> None:
    """Tell a program; the secret that signs what is sent is printed once."""
    with Api(load_config()) as api:
        made = api.post("/webhooks/", {"url": url, "kinds": kind or []})
    if as_json:
        print_json(made)
        return
    print_line(f"{made['host']} is told from now on, as webhook {made['id']}.")
    print_line(f"Its secret, shown only now: {made['secret']}")


@app.command()
def change(
    number: Number,
    kind: Kinds = None,
    everything: Annotated[bool, typer.Option("--all", help="Tell it of everything.")] = False,
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="Stop, go on.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell it of other news, pause it or let it go on."""
    if kind and everything:
        raise Failure("--kind and --all exclude each other.", remedy="Give one of them.")
    sent: dict[str, object] = {"kinds": kind} if kind else {"kinds": []} if everything else {}
    if pause is not None:
        sent["is_paused"] = pause
    if not sent:
        raise Failure("Nothing to change.", remedy="Give --kind, --all, --pause or --resume.")
    with Api(load_config()) as api:
        found = api.post(f"/webhooks/{number}/", sent)
    if as_json:
        print_json(found)
        return
    of = ", ".join(found["kinds"]) or "everything"
    print_line(f"{found['host']} is {'paused' if found['paused_at'] else 'told'}: {of}.")


@app.command()
def remove(number: Number, as_json: AsJson = False) -> None:
    """Forget it, its secret and its deliveries."""
    with Api(load_config()) as api:
        api.delete(f"/webhooks/{number}/")
    if as_json:
        print_json({"id": number})
        return
    print_line(f"Webhook {number} is removed.")


@app.command()
def deliveries(
    webhook: Annotated[int | None, typer.Option(help="Of this one alone.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """What became of the latest deliveries."""
    with Api(load_config()) as api:
        found, is_cut = api.first("/webhooks/deliveries/", limit, webhook=webhook)
    empty = "Nothing was sent yet."
    print_listed(found, _DELIVERY, _delivery_cells, empty, as_json=as_json, is_cut=is_cut)


def _delivery_cells(one: dict[str, Any]) -> list[object]:
    came = "arrived" if one["sent_at"] else "given up" if one["given_up_at"] else "on its way"
    return [one["id"], one["host"], one["kind"], ago(one["created_at"]), one["tries"], came]


@app.command()
def again(
    number: Annotated[int, typer.Argument(help="The delivery, as listed.")],
    as_json: AsJson = False,
) -> None:
    """Send a delivery again, whatever became of it."""
    with Api(load_config()) as api:
        row = api.post(f"/webhooks/deliveries/{number}/again/")
    if as_json:
        print_json(row)
        return
    when = "once the webhook is resumed" if row.get("is_paused") else "within half a minute"
    print_line(f"Delivery {row['id']} to {row['host']} is sent {when}.")

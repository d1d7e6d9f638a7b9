"""Pictures of every page, in both themes and two widths, into `.gallery`: `make gallery`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser import seeding
from tests.browser.conftest import find_chromium, launch, sign_in
from tests.browser.faults import fault_pages
from tests.browser.past import Theme, shoot_past
from tests.browser.places import PUBLIC, addresses, places_of
from tests.browser.showing import show
from tests.servers import LiveStack, running_stack

FOLDER = Path(__file__).resolve().parents[2] / ".gallery"
WIDTHS = (1280, 390)
THEMES: tuple[Theme, ...] = ("light", "dark")


def populate(stack: LiveStack) -> dict[str, int | str]:
    """Jobs in several states, so that pages have something to show."""
    digits = (Path(__file__).parents[2] / "deploy/samples/digits/train.py").read_text("utf-8")
    done = stack.submit(name="digits-baseline", script=digits, env={"EPOCH_S": "0.3"}, cpus=2)
    failed = stack.submit(name="bad-learning-rate", script="echo loss is nan; exit 3")
    stack.wait_for(done["id"])
    loop = "i=0; while [ $i -lt 900 ]; do i=$((i+1)); echo step $i/900; sleep 0.5; done"
    running = stack.submit("bob", name="resnet-sweep-04", script=loop, nodes=2, gpus_per_node=4)
    stack.wait_for(running["id"], "running", username="bob")
    for name, gpus in (("long-context-run", 8), ("ablation-a", 2), ("ablation-b", 2)):
        stack.submit("chen", name=name, script=loop, project="language/pretraining",
                     gpus_per_node=gpus)  # fmt: skip
    waiting = stack.submit(
        name="segmentation-large", script=loop, nodes=2, gpus_per_node=8, tier="urgent",
        project="vision/segmentation",
    )  # fmt: skip
    stack.submit(name="after-review", script=loop, hold=True)
    shell = {"session": {"app": "shell"}, "gpus_per_node": 0, "time_limit": "2h"}
    session = stack.submit(name="look-around", script="", **shell)
    array = seeding.submit_array(stack)
    limit(stack)
    book(stack)
    stack.wait_for(session["id"], "running")
    return {
        "job": done["id"],
        "failed": failed["id"],
        "running": running["id"],
        "waiting": waiting["id"],
        "session": session["id"],
        "set": array,
        **seeding.surround(stack, asks="maximum", chats="admin"),
    }


def book(stack: LiveStack) -> None:
    """A node for a team tomorrow."""
    day = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=1)
    asked = {"owner": "vision", "pool": "default", "nodes": 1, "name": "paper-deadline"}
    span = {"from_at": day.isoformat(), "until_at": (day + timedelta(hours=10)).isoformat()}
    with stack.api("admin") as api:
        made = api.post("/bookings/", json={**asked, **span})
        assert made.status_code == 201, made.text


def limit(stack: LiveStack) -> None:
    """Quotas and budgets in hours and money, so that their pages have something to show."""
    year = {"valid_from": "2026-01-01T00:00:00Z", "valid_until": "2126-01-01T00:00:00Z"}
    soft = {"enforcement": "warn", **year}
    posts = (
        ("/rules/quotas/", {"owner": "vision", "guaranteed": 4, "maximum": 16}),
        ("/rules/quotas/", {"owner": "language", "guaranteed": 8, "lend_limit": 4}),
        ("/rules/budgets/", {"owner": "vision", "amount": "0.05", **soft}),
        ("/rules/budgets/", {"owner": "vision/digits", "gpu_hours": 40, **soft}),
        ("/rules/budgets/", {"owner": "language", "amount": "12500.00", **year}),
    )
    with stack.api("admin") as api:
        for path, body in posts:
            reply = api.post(path, json=body)
            assert reply.status_code == 200, reply.text


def spend(page: Page) -> None:
    """Terms, a purchase and a cost, by the forms of an administrator."""
    cards = {"name": "Eight H100 cards", "paid": "218000", "since": "2026-01-01", "months": "48"}
    meter = {
        "month": f"{datetime.now(UTC):%Y-%m}",
        "kind": "energy",
        "amount": "1830.40",
        "note": "meter 4",
    }
    agreed = {"idle": "by_use", "platform": "hybrid", "reason": "agreed by the steering group"}
    for path, fields in (("assets", cards), ("costs", meter), ("terms", agreed)):
        page.goto(f"/finance/{path}/")
        for name, value in fields.items():
            box = page.locator(f"form [name={name}]")
            if name in ("kind", "idle", "platform"):
                box.select_option(value)
            else:
                box.fill(value)
        page.get_by_role("button", name="Propose").click()
        page.wait_for_load_state("load")


def shoot(page: Page, address: str, name: str) -> None:
    """One full page."""
    page.goto(address)
    page.wait_for_load_state("load")
    page.wait_for_timeout(600)
    page.screenshot(path=str(FOLDER / f"{name}.png"), full_page=True)


def name_of(address: str) -> str:
    """A file name from an address."""
    if "/invitations/" in address:
        return "invitation"
    if "/addresses/" in address:
        return "address-undo" if "/undo/" in address else "address-confirm"
    return address.strip("/").replace("/", "-").replace("?", "-").replace("=", "-") or "home"


def shoot_present(
    browser: Browser, shots: Sequence[tuple[Theme, int]], wishes: Sequence[str]
) -> None:
    """Every page of a stack that runs jobs right now."""

    def chosen(found: Iterable[str]) -> list[str]:
        return [one for one in found if not wishes or any(each in one for each in wishes)]

    with running_stack() as stack:
        things = populate(stack)
        private = addresses(things) + [
            f"/jobs/{things[one]}/{tab}"
            for one in ("running", "waiting")
            for tab in ("", "change/?time_limit=2h")
        ]
        for theme, width in shots:
            context = browser.new_context(
                base_url=stack.address,
                color_scheme=theme,
                viewport={"width": width, "height": 900},
            )
            # Of a long page on a busy machine a picture takes longer than half a minute.
            context.set_default_timeout(90_000)
            page = context.new_page()
            ending = f"{theme}-{width}"

            for address in chosen([*places_of("", things, PUBLIC), *fault_pages(context)]):
                shoot(page, address, f"{name_of(address)}-{ending}")
            sign_in(page, "admin", stack.password("admin"))
            if (theme, width) == shots[0]:
                spend(page)
            for address in chosen(private):
                shoot(page, address, f"{name_of(address)}-{ending}")
            context.close()
            if chosen(["shell"]):
                shoot_shell(browser, stack, int(things["session"]), theme, width)


def shoot_shell(browser: Browser, stack: LiveStack, session: int, theme: Theme, width: int) -> None:
    """The shell in the browser; only the owner of a session may come in, signed in there."""
    page = browser.new_context(
        base_url=stack.address, color_scheme=theme, viewport={"width": width, "height": 900}
    ).new_page()
    sign_in(page, "alice", stack.password("alice"))
    with stack.api("alice") as api:
        ticket = api.post(f"/sessions/{session}/ticket/")
        assert ticket.status_code == 201, ticket.text
    page.goto(ticket.json()["url"])
    expect(page.locator("#state")).to_have_text("connected")
    page.keyboard.type("nvidia-smi -L || ls --color=always /\n")
    page.wait_for_timeout(1500)
    page.screenshot(path=str(FOLDER / f"shell-{theme}-{width}.png"))
    page.context.close()


def main() -> int:
    """Take all pictures; words on the command line choose addresses that contain one of them.

    `past` alone takes those of closed months, `readme` alone renews those of the README instead.
    """
    if find_chromium() is None:
        print("Chromium is missing; sudo apt-get install chromium", file=sys.stderr)
        return 1
    wishes = sys.argv[1:]
    if wishes == ["readme"]:
        with sync_playwright() as playwright:
            show(launch(playwright))
        return 0
    FOLDER.mkdir(exist_ok=True)
    shots = [(theme, width) for theme in THEMES for width in WIDTHS]
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if wishes != ["past"]:
            shoot_present(browser, shots, wishes)
        if not wishes or "past" in wishes:
            shoot_past(browser, shots, shoot, name_of)
        browser.close()
    print(f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

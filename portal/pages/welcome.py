"""First run: what an administrator does until the first job has run, with live ticks."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from accounts.errors import DomainError, Forbidden, Invalid, NotFound
from accounts.models import DemoAct, RateDecision
from accounts.permissions import can
from accounts.selectors.rates import current_rates
from accounts.services import price_reserved_alike, set_rate
from portal.beats import read_progress
from portal.forms.rates import RateForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.pages.signing.again import asks_password
from portal.templatetags.sample import sample_sentence
from scheduler.conf import load_conf
from scheduler.selectors.tables.beginning import Beginning, beginning_of
from scheduler.services.demo.ordering import ask_for_demo

PARTS = ("steps", "demo")
# Beside the form; who has many keeps them on the page of prices.
_PRICES = 20


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to set up; `url` is where it is done. `stays`: the way is shown after, too."""

    title: str
    words: str
    is_done: bool
    url: str
    action: str
    stays: bool = False


def setup_steps(beginning: Beginning, has_price: bool) -> list[Step]:
    """For operators: team and project, GPUs, price, first job and what it left."""
    done = beginning.done
    return [
        Step(
            "A team with a project",
            "Jobs belong to a project, and a project to the team that pays for it.",
            beginning.has_project or beginning.has_job,
            reverse("teams:list"),
            "Create a team",
        ),
        Step(
            "A node with GPUs",
            "Create a pool, then type one line on the machine. Without cards: four nodes that "
            "simulate eight each (--simulated-gpus 8) are a cluster to learn on.",
            beginning.has_node,
            reverse("nodes:enrol"),
            "Enrol a node",
        ),
        Step(
            "A price for a GPU-hour",
            "Without one, usage is counted and costs nothing.",
            has_price,
            reverse("welcome") + "#price",
            "Set a price",
        ),
        Step(
            "A first job",
            f"{sample_sentence()} It leaves a log, charts and a cost.",
            bool(done),
            reverse("jobs:submit") + "?from=sample",
            "Open the sample",
        ),
        Step(
            "Its log, its charts, its cost",
            "What every job leaves: line by line, GPU by GPU, to the second.",
            bool(done),
            reverse("jobs:detail", args=[done]) if done else "",
            "Open the job",
            stays=True,
        ),
    ]


@page("GET", "POST")
@asks_password
def welcome(request: HttpRequest) -> HttpResponseBase:
    """The checklist, and the form of prices for administrators. Does not exist for others.

    `?part=steps` is the checklist alone, for its live ticks; `?part=demo` how far the demonstration
    is.
    """
    viewer = viewer_of(request)
    if not can(viewer, "operate", None):
        raise NotFound()
    beginning = beginning_of(viewer, now=timezone.now(), with_models=True)
    asked = request.POST if request.method == "POST" else None
    form = RateForm(asked, models=beginning.models)
    if request.method == "POST" and form.is_valid():
        currency = load_conf().currency
        try:
            rate = set_rate(actor=viewer, currency=currency, **form.cleaned_data)
            price_reserved_alike(actor=viewer, rate=rate)
        except (NotFound, Forbidden):
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            if rate.decision == RateDecision.APPROVED:
                words = "The price holds from now on, also for what is reserved and not used."
            else:
                words = "The price is proposed; another person who keeps the books approves it."
            messages.success(request, words)
            return redirect("welcome")
    rates = current_rates()
    steps = setup_steps(beginning, bool(rates))
    context = {
        "steps": steps,
        "demo_since": beginning.demo_since,
        "asked": beginning.asked,
        "has_job": beginning.has_job,
        "progress": read_progress() if _is_under_way(beginning) else "",
        "done_count": sum(step.is_done for step in steps),
        "form": form,
        "rates": leaf_of(request, rates, "prices", size=_PRICES),
        "currency": load_conf().currency,
        "may_set_prices": can(viewer, "administer", None),
    }
    part = request.GET.get("part", "")
    answer = render(request, f"welcome.html#{part}" if part in PARTS else "welcome.html", context)
    if part == "demo" and not _is_under_way(beginning):
        # The banner is on the whole page.
        answer["HX-Refresh"] = "true"
    return answer


def _is_under_way(beginning: Beginning) -> bool:
    return beginning.asked is not None and beginning.asked.ended_at is None


@page("POST")
def welcome_demo(request: HttpRequest) -> HttpResponseBase:
    """Let a worker load the demonstration, or remove it: `act` says which."""
    viewer = viewer_of(request)
    if not can(viewer, "operate", None):
        raise NotFound()
    act = request.POST.get("act", "")

    def ask() -> str:
        if act not in DemoAct.values:
            raise Invalid("act: choose load or remove.", field="act")
        is_beside = request.POST.get("beside") == "on"
        ask_for_demo(actor=viewer, act=DemoAct(act), is_beside=is_beside)
        return "A worker begins within seconds."

    answer = said_and_back(request, ask, "welcome")
    answer["Location"] += "#demo"
    return answer

"""The palette: every page and action, and things by name; the same answers as a page of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify

from accounts.models import User
from accounts.permissions import can
from portal import limits
from portal.forms.filters import unknown_parameters
from portal.forms.grammar.jobs import parse_job_query
from portal.pages.access import page, viewer_of
from portal.pages.help import glossary
from portal.pages.nodes import DRAINABLE, RESUMABLE
from scheduler.selectors.books.catalogue import REPORTS
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.finding import find_by_name
from scheduler.selectors.jobs import MAX_PK, job_actions, visible_jobs
from scheduler.states import shown_state

MOST = 12
MOST_ACTIONS_FIRST = 6
# So many of the places that are only akin to a text keep their lines when many things carry it.
LEAST_AKIN = 3
MAX_TEXT = 200
MOST_WORDS = 3
# Shorter texts are in every sentence.
LEAST_OF_A_WORD = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A page or an action. `words`: what else people call it; `right`: what it takes, over all."""

    title: str
    route: str
    glyph: str
    words: str = ""
    right: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the answer."""

    title: str
    url: str
    glyph: str
    kind: str
    detail: str = ""
    state: str = ""
    end_reason: str = ""
    key: str = ""


# The first of them are shown before anything is typed.
PLACES = (
    Place("Submit job", "jobs:submit", "plus", "new run compose train array gang", key="c"),
    Place("Start job from", "jobs:start", "copy", "sbatch slurm yaml file paste clone import"),
    Place("Start session", "sessions:new", "session", "new notebook jupyter shell terminal"),
    Place("Jobs", "jobs:list", "jobs", "my mine runs list", key="g j"),
    Place("Sessions", "sessions:list", "session", "notebook jupyter lab shell terminal connect"),
    Place("Queue", "queue:list", "queue", "waiting order position why", key="g q"),
    Place("Templates", "templates:list", "template", "recipes presets team start job"),
    Place("Cluster map", "cluster_map", "map", "gpu use power temperature health", key="g c"),
    Place("Schedules", "schedules:list", "repeat", "cron repeat recurring nightly again jobs"),
    Place("Compare jobs", "jobs:compare", "wrap", "diff side by side difference"),
    Place("Timeline", "cluster_timeline", "usage", "gantt cluster planned past"),
    Place("Free over time", "cluster_room", "usage", "cluster capacity gpus nodes chart when"),
    Place("Nodes", "nodes:list", "node", "cluster gpu machines pools policy", key="g n"),
    Place("Approvals", "approvals", "succeeded", "decide inbox", key="g a"),
    Place("Who decides", "approval_rules", "report", "rules routing requests", "read_settings"),
    Place("Request quota", "requests:new", "quota", "ask more gpus budget"),
    Place("Requests", "requests:list", "quota", "quota asked", key="g r"),
    Place("Bookings", "bookings:list", "period", "reserve reservation maintenance", key="g b"),
    Place("Teams & projects", "teams:list", "team", "members invite", key="g t"),
    Place("Costs", "costs:overview", "money", "usage spend gpu-hours"),
    Place("Use and waste", "costs:waste", "money", "usage week idle unused waste"),
    Place("Finance", "finance:index", "rate", "reports statements", key="g f"),
    Place("Months", "finance:periods", "period", "close period books", "read_books"),
    Place("Prices", "finance:prices", "rate", "rates card", "read_books"),
    Place("Adjustments", "finance:adjustments", "money", "credit correction", "read_books"),
    Place("Money budgets", "finance:budgets", "money", "limit hard stop", "read_books"),
    Place("Assets", "finance:assets", "money", "cards bought write-off purchase", "read_books"),
    Place("Costs and recovery", "finance:costs", "money", "energy platform bill", "read_books"),
    Place("Terms of pools", "finance:terms", "money", "idle platform who pays", "read_books"),
    Place("Cost centres", "finance:centres", "money", "accounting code", "read_books"),
    Place("FOCUS export", "finance:focus", "dl", "finops csv", "read_books"),
    Place("Kept files", "finance:exports", "dl", "reports csv xlsx parquet", "read_books"),
    Place("Reports by mail", "finance:schedules", "bell", "schedule monthly weekly", "read_books"),
    Place("First steps", "welcome", "info", "begin set up demonstration data", "operate_cluster"),
    Place("Add node", "nodes:enrol", "plus", "enrol register agent token", "operate_cluster"),
    Place("Health", "health", "info", "server workers broker late operator", "operate_cluster"),
    Place("Simulator", "simulator:list", "clock", "what if policy replay", "operate_cluster"),
    Place("Audit", "audit:list", "report", "who changed history events", "read_audit"),
    Place("Roles", "roles:list", "key", "administrators rights", "read_settings"),
    Place("Groups", "groups:list", "team", "sso oidc identity roles rules", "read_settings"),
    Place("People", "users:list", "team", "users accounts deactivate", "administer_cluster"),
    Place("Webhooks", "webhooks:list", "link", "chat signed tell program", "administer_cluster"),
    Place("View as role", "preview", "search", "preview persona see as", "administer_cluster"),
    Place("Notifications", "notifications:list", "bell", "inbox news mail alerts", key="g i"),
    Place("Announcements", "announcements:list", "bell", "banner tell all", "operate_cluster"),
    Place("Notification settings", "notification_settings", "bell", "mail mute opt in"),
    Place("Chats", "channels:list", "bell", "slack mattermost teams rocket channel webhook"),
    Place("Quiet hours", "notification_hours", "bell", "digest daily weekly mail night urgent"),
    Place("Scope", "scope", "team", "narrow only team project switch filter", key="g s"),
    Place("API tokens", "tokens:list", "key", "secret cli access"),
    Place("Secrets", "secrets:list", "key", "password credential hub file environment settings"),
    Place("Profile", "profile", "team", "name theme dark light keys settings mail address"),
    Place("Change password", "account_change_password", "rate", "sign in profile settings"),
    Place("Acting for others", "delegations:list", "team", "deputy delegation holiday"),
    Place("Help", "help", "help", "glossary states reasons documentation", key="g h"),
    Place("API docs", "api_docs", "code", "rest openapi"),
    Place("Home", "home", "home", "start", key="g g"),
)

# What a job is asked by its number: the action, its icon, and where it is confirmed.
_JOB_VERBS = {
    "cancel": ("cancel", "cancelled", "jobs:detail", "#cancel-now"),
    "stop": ("cancel", "cancelled", "jobs:detail", "#cancel-now"),
    "pause": ("pause", "pause", "jobs:change", "?pause=1"),
    "change": ("change", "right", "jobs:change", ""),
    "extend": ("change", "right", "jobs:change", ""),
    "clone": ("clone", "copy", "jobs:submit", "?clone={}"),
    "hold": ("hold", "pause", "jobs:detail", ""),
    "release": ("release", "right", "jobs:detail", ""),
    "resume": ("release", "right", "jobs:detail", ""),
}
_NODE_VERBS = {"drain": ("drain", "#drain-now"), "resume": ("right", "")}


@page("GET")
def search(request: HttpRequest) -> HttpResponseBase:
    """Up to twelve places and things for `q`. `?part=results`: the list alone, for the palette."""
    viewer = viewer_of(request)
    text = " ".join(request.GET.get("q", "").split())
    limits.count(limits.SEARCH, viewer.pk, search=text)
    is_long = len(text) > MAX_TEXT
    is_palette = request.GET.get("part") == "results"
    results, is_cut = ([], False) if is_long else results_for(viewer, text)
    context = {
        "is_palette": is_palette,
        "q": text[:MAX_TEXT],
        "results": results,
        "is_cut": is_cut,
        "problem": f"q: has more than {MAX_TEXT} characters; shorten it." if is_long else "",
        "unknown": unknown_parameters(request.GET, ("q", "part")),
    }
    return render(request, "search.html#results" if is_palette else "search.html", context)


def results_for(viewer: User, text: str) -> tuple[list[Result], bool]:
    """Places called so, then things, then places akin to it; at most twelve, and whether more
    were found."""
    verb, _, which = text.partition(" ")
    acts = list(_acts(viewer, verb.lower(), which.strip())) if which else []
    named, akin = _places(viewer, text)
    most = MOST_ACTIONS_FIRST if text else 8
    first = [*acts, *named[:most], *_filter(text)]
    things = list(_things(viewer, which if acts else text))
    last = [*akin[: max(0, most - len(named))], *_reports(viewer, text), *_words(text)]
    room = max(0, MOST - len(first) - min(LEAST_AKIN, len(akin)))
    found = [*first, *things[:room], *last][:MOST]
    is_cut = len(named) + len(akin) > most or len(first) + len(things) + len(last) > len(found)
    return found, bool(text) and is_cut


def _acts(viewer: User, verb: str, which: str) -> Iterable[Result]:
    """`cancel 142`, `drain n3`: to where it is confirmed, if the viewer may do it now. Nothing is
    done here."""
    number = which.removeprefix("#")
    if verb in _JOB_VERBS and number.isascii() and number.isdigit():
        act, glyph, route, rest = _JOB_VERBS[verb]
        found = visible_jobs(viewer).filter(pk=min(int(number), MAX_PK)).first()
        if found is not None and act in job_actions(viewer, found):
            args = [] if route == "jobs:submit" else [found.pk]
            url = reverse(route, args=args) + rest.format(found.pk)
            yield Result(f"{verb.title()} job #{found.pk}", url, glyph, "action", found.name)
    elif verb in _NODE_VERBS and can(viewer, "operate", None) and "\x00" not in which:
        node = visible_nodes(viewer).filter(name=which.lower()).first()
        if node is None:
            return
        is_asked = node.drain_requested_at is not None
        may = {
            "drain": node.state in DRAINABLE and not is_asked,
            "resume": node.state in RESUMABLE or is_asked,
        }
        if may[verb]:
            url = reverse("nodes:detail", args=[node.name])
            glyph, rest = _NODE_VERBS[verb]
            yield Result(f"{verb.title()} {node.name}", url + rest, glyph, "action", node.pool.name)


def _words(text: str) -> Iterable[Result]:
    """States and reasons for waiting, as help explains them."""
    words = text.lower().split()
    if len(text) < LEAST_OF_A_WORD or any(word.isdigit() for word in words):
        return
    fitting = [
        (not all(word in term for word in words), number, code, sentence)
        for number, (code, sentence) in enumerate(glossary())
        for term in [code.lower().replace("_", " ")]
        if all(word in term or word in sentence or word == code.lower() for word in words)
    ]
    for _, _, code, sentence in sorted(fitting)[:MOST_WORDS]:
        url = reverse("help") + f"#{slugify(code)}"
        yield Result(code, url, "help", "help", sentence)


def _places(viewer: User, text: str) -> tuple[list[Result], list[Result]]:
    """Those in whose title a word begins so, all without a text; and those that are only akin:
    other names that begin so first, then what has it anywhere."""
    words = text.lower().split()
    ranked: dict[int, list[Result]] = {0: [], 1: [], 2: []}
    for place in PLACES:
        title, other = place.title.lower(), place.words
        if not all(word in title or word in other for word in words):
            continue
        if place.right and not can(viewer, place.right, None):
            continue
        if not words or any(_begun(words, title)):
            rank = 0
        else:
            rank = 1 if all(_begun(words, f"{title} {other}")) else 2
        url = reverse(place.route)
        ranked[rank].append(Result(place.title, url, place.glyph, "page", key=place.key))
    return ranked[0], [*ranked[1], *ranked[2]]


def _begun(words: list[str], text: str) -> Iterator[bool]:
    """Of each of these words whether a word of a text begins so."""
    parts = text.split()
    return (any(part.startswith(word) for part in parts) for word in words)


def _reports(viewer: User, text: str) -> Iterable[Result]:
    """Reports of the books by their titles, for who reads all of them: whose they are besides
    takes a statement."""
    words = text.lower().split()
    if not words or not can(viewer, "read_books", None):
        return
    for one in REPORTS.values():
        if not one.is_trail and all(word in one.title.lower() for word in words):
            url = reverse("finance:report", args=[one.slug])
            yield Result(one.title, url, "report", "report", one.about)


def _filter(text: str) -> Iterable[Result]:
    """`state:running team:vision` is the job list's own language."""
    query = parse_job_query(text, now=timezone.now())
    if query.has_terms and not query.problems:
        url = reverse("jobs:list", query={"q": query.text})
        yield Result(f"Jobs with {query.text}", url, "filter", "filter")


def _things(viewer: User, text: str) -> Iterable[Result]:
    found = find_by_name(viewer, text)
    for job in found.jobs:
        url = reverse("jobs:detail", args=[job.pk])
        state = shown_state(job.state, job.end_reason, unreachable=False)
        detail = f"#{job.pk} · {job.project}"
        yield Result(job.name, url, "jobs", "job", detail, state, job.end_reason)
    for name, pool in found.nodes:
        yield Result(name, reverse("nodes:detail", args=[name]), "node", "node", pool)
    teams: dict[str, str] = {}
    for project in found.projects:
        teams.setdefault(project.team, project.team_name)
        path = f"{project.team}/{project.slug}"
        url = reverse("jobs:list", query={"q": f"project:{path}"})
        yield Result(path, url, "jobs", "project", project.name)
    for slug, name in teams.items():
        yield Result(name, reverse("teams:board", args=[slug]), "team", "team", slug)
        url = reverse("home", query={"scope": f"team:{slug}"})
        yield Result(f"Only {name}", url, "filter", "scope", slug)

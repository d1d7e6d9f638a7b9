"""The frame of every page view: methods, sign-in, and what refusals look like to a person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from django import forms
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from accounts.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from accounts.models import User
from portal.forms.filters import WatchedQuery
from portal.forms.labels import as_words, in_labels, with_given
from portal.limits import TooFast
from portal.pages.errors import not_text, too_fast, wrong_method
from portal.serving.unchanged import unless_unchanged
from scheduler.states import JobState

View = Callable[..., HttpResponseBase]
_Pool = TypeVar("_Pool")
# So many choices are named where a value is none of them.
_FEW = 6


def takes(*methods: str) -> Callable[[View], View]:
    """A view of these methods; GET brings HEAD along. Any other is answered with the 405 page."""
    allowed = [*methods, "HEAD"] if "GET" in methods else list(methods)

    def framed(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method not in allowed:
                return wrong_method(request, allowed)
            return view(request, *args, **kwargs)

        return answer

    return framed


def page(*methods: str, back: str = "") -> Callable[[View], View]:
    """A view for signed-in people: foreign and missing things are 404, refused ones 403,
    calls that come too fast 429.

    `back`: a view of POST alone answers with the page of this route, with what is wrong; whoever
    turns a leaf there, or comes again, is led to that page. It has the view's slug, if any.

    Parameters that the view does not read are named above the page as not known.
    """

    def framed(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            # What no database takes is read as HTML reads it: as a character that nobody can read.
            sent = request.META.get("QUERY_STRING", "").replace("%00", "%EF%BF%BD")
            request.GET = WatchedQuery(sent)  # type: ignore[assignment]
            if any("\x00" in word for word in kwargs.values() if isinstance(word, str)):
                raise Http404  # no database holds such a name, and PostgreSQL refuses the question
            try:
                return unless_unchanged(request, view(request, *args, **kwargs))
            except NotFound:
                raise Http404 from None
            except Forbidden as refused:
                raise PermissionDenied(refused.detail) from None
            except TooFast as refused:
                return too_fast(request, refused.wait_s)
            except DataError:
                if not (name := _with_nul(request)):
                    raise
                return not_text(request, name)

        allowed = ["GET", *methods] if back else methods
        return takes(*allowed)(_signed_in(_led_back(answer, back) if back else answer))

    return framed


def _led_back(view: View, back: str) -> View:
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method == "POST":
            return view(request, *args, **kwargs)
        there = reverse(back, kwargs={name: kwargs[name] for name in kwargs if name == "slug"})
        sent = request.META.get("QUERY_STRING", "")
        return redirect(f"{there}?{sent}" if sent else there)

    return answer


def _with_nul(request: HttpRequest) -> str:
    """A field of a form that has what PostgreSQL takes in no text."""
    sent = request.POST.lists()
    return next((name for name, words in sent if any("\x00" in word for word in words)), "")


def _signed_in(view: View) -> View:
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        return _sign_in_first(request)

    return answer


def _sign_in_first(request: HttpRequest) -> HttpResponseBase:
    """To the sign-in page, and back to the page where one was: never to an address of a form.

    A part of a page that was asked for is sent there too, and not put in by the page, which says
    that its reader is signed out; one that was sent takes the page along.
    """
    if request.method in ("GET", "HEAD"):
        return redirect_to_login(request.get_full_path())
    part = request.headers.get("HX-Request")
    came_from = request.headers.get("HX-Current-URL" if part else "Referer", "")
    is_ours = url_has_allowed_host_and_scheme(came_from, {request.get_host()})
    found = urlsplit(came_from) if is_ours else urlsplit("/")
    there = redirect_to_login(found._replace(scheme="", netloc="", fragment="").geturl() or "/")
    return HttpResponse(headers={"HX-Redirect": there.url}) if part else there


def viewer_of(request: HttpRequest) -> User:
    """The signed-in person; only for views framed by `page`."""
    return cast(User, request.user)


def choice(request: HttpRequest, name: str, choices: Collection[str], usual: str = "") -> str:
    """A parameter that is one of these; for any other value `usual`, and the page says so."""
    value = request.GET.get(name, "")
    if not value or value in choices:
        return value or usual
    if isinstance(request.GET, WatchedQuery):
        few = 0 < len(choices) <= _FEW
        request.GET.note_odd(name, f"choose {' or '.join(choices)}" if few else "")
    return usual


def pool_asked(
    request: HttpRequest, pools: Mapping[str, _Pool], problems: list[str], instead: str
) -> _Pool | None:
    """What `?pool=` names of `pools`, by name; None without it, or with a problem that says what
    there is `instead`."""
    asked = request.GET.get("pool", "")
    if asked and asked not in pools:
        problems.append(f"pool: there is no pool {asked[:63]!r}; {instead}.")
    return pools.get(asked)


class WhileIn(str):
    """Words that hold while their job is in the state `holds`: its page takes them away then."""

    holds: str

    def __new__(cls, state: str, words: str) -> WhileIn:
        """`words`, with how long they hold."""
        made = super().__new__(cls, words)
        made.holds = state
        return made


def say(request: HttpRequest, words: str) -> None:
    """Above the next page: what a press has done."""
    messages.success(request, words, extra_tags=words.holds if isinstance(words, WhileIn) else "")


def outlived(request: HttpRequest, state: str) -> dict[str, Any]:
    """For a part of a job's page with `&above=`, the state that words above the page tell of, as
    long as they stand there: `is_outlived` once the job is in another `state`."""
    above = choice(request, "above", tuple(JobState))
    return {"above": above if above == state else "", "is_outlived": above not in ("", state)}


def said_and_back(
    request: HttpRequest, act: Callable[[], str], *route: Any, **kwargs: Any
) -> HttpResponseBase:
    """Do what a button asks, say how it went, and go to `route`; a refusal is said, too."""
    try:
        say(request, act())
    except DomainError as refused:
        say_refused(request, refused)
    return redirect(*route, **kwargs)


def say_refused(request: HttpRequest, refused: DomainError) -> None:
    """Above the next page; what is foreign, or not for the viewer, is raised again."""
    if isinstance(refused, NotFound | Forbidden):
        raise refused
    level = messages.WARNING if isinstance(refused, Conflict) else messages.ERROR
    messages.add_message(request, level, told_of(refused, request))


def told_of(refused: DomainError, request: HttpRequest) -> str:
    """A refusal for a page that does not show its form again: by the field's name, with what was
    given."""
    told = _told(refused)
    if isinstance(refused, Conflict):
        return told
    sent = {name: text for name, text in request.POST.items() if str(text).strip()}
    return with_given(told, refused.field, sent)


def refused_form(form: forms.Form) -> Invalid:
    """The first thing that is wrong with a form whose page does not show it again."""
    field, words = next(iter(form.errors.items()))
    label = form.fields[field].label if field in form.fields else ""
    return Invalid(f"{label}: {words[0]}" if label else str(words[0]), field=field)


def _told(refused: DomainError) -> str:
    """Its field's name stands before it: the page that says it has many."""
    name = as_words(refused.field)
    told = in_labels(refused.detail, {refused.field: name})
    is_named = not refused.field or isinstance(refused, Conflict) or ": " in told[:40]
    return told if is_named else f"{name}: {told}"

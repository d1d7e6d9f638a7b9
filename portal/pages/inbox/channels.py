"""Channels of chats: where a person's news, and those of the teams they lead, are told."""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.models import Team, User
from accounts.permissions import teams_visible_to
from accounts.selectors import get_visible_team
from portal.pages.access import page, said_and_back, say_refused, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.pages.listing.tails import tail_of
from scheduler.models import Dialect, Webhook
from scheduler.selectors.inbox import (
    get_visible_channel,
    messages_to,
    visible_channels,
    words_of,
)
from scheduler.services.inbox import add_channel, change_channel, remove_channel, try_channel
from scheduler.states import NOTICE_RULES, TEAM_KINDS, NoticeKind

# Nobody looks for one among more; its name is typed.
_MOST_OFFERED = 100
_ACTS = {
    "pause": "Nothing is sent there for now.",
    "resume": "It is told again, from now on.",
    "remove": "It is forgotten, and its address with it.",
    "test": "",
}


class _Unseen(forms.URLInput):
    """An address that never comes back, not even beside an error."""

    def format_value(self, value: Any) -> str:
        """Nothing, whatever was sent."""
        return ""


def _kinds(offered: frozenset[NoticeKind] | None = None) -> list[tuple[str, str]]:
    rules = NOTICE_RULES.items()
    return [(str(kind), rule.words) for kind, rule in rules if not offered or kind in offered]


class ChannelChange(forms.Form):
    """What a channel is called and told of."""

    name = forms.CharField(
        label="Name", max_length=60, required=False, help_text="How you tell it from others."
    )
    kinds = forms.MultipleChoiceField(
        label="Tell it of",
        required=False,
        choices=_kinds,
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: of everything.",
    )

    def __init__(self, *args: Any, team: Team | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        if team is not None:
            field = cast(forms.MultipleChoiceField, self.fields["kinds"])
            field.choices = _kinds(TEAM_KINDS)
            field.help_text = "None chosen: of all these."


class ChannelForm(ChannelChange):
    """The same for a new one, with its address."""

    url = forms.CharField(
        label="Address",
        max_length=500,
        help_text="Of the chat's incoming webhook. It is kept sealed and not shown again.",
        widget=_Unseen(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    dialect = forms.ChoiceField(
        label="Chat", choices=[one for one in Dialect.choices if one[0] != Dialect.SIGNED]
    )
    team = forms.ChoiceField(
        label="Who is told",
        required=False,
        help_text="A team's channel gets what everybody in it may read: news of jobs and sessions.",
    )
    field_order = ("dialect", "url", "team", "name", "kinds")

    def offer(self, viewer: User) -> ChannelForm:
        """Let it be for one of the teams that the viewer manages, too."""
        found = teams_visible_to(viewer, "manage_team").order_by("slug")
        slugs = list(found.values_list("slug", flat=True)[: _MOST_OFFERED + 1])
        if len(slugs) > _MOST_OFFERED:
            self.fields["team"] = forms.CharField(
                label="The team whose news it gets",
                required=False,
                max_length=63,
                help_text="Its short name. Empty: your own news.",
            )
        elif slugs:
            offered = [("", "my own news"), *((one, f"news of team {one}") for one in slugs)]
            cast(forms.ChoiceField, self.fields["team"]).choices = offered
        else:
            del self.fields["team"]
        return self


@page("GET", "POST")
def channel_list(request: HttpRequest) -> HttpResponseBase:
    """The viewer's channels and those of teams they manage, and a form for a new one."""
    viewer = viewer_of(request)
    form = ChannelForm(request.POST if request.method == "POST" else None).offer(viewer)
    if request.method != "POST" or not form.is_valid():
        return _show_list(request, form, status=422 if form.is_bound else 200)
    sent = dict(form.cleaned_data)
    try:
        slug = sent.pop("team", "")
        team = get_visible_team(viewer, slug) if slug else None
        made = add_channel(actor=viewer, team=team, **sent)
    except NotFound:
        form.add_error("team", "There is no such team for you.")
    except Forbidden:
        raise
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
    else:
        messages.success(request, f"{made.host} is told from now on. Send a test to see it there.")
        return redirect("channels:detail", pk=made.pk)
    return _show_list(request, form, status=422)


@page("GET", "POST")
def channel_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One channel: what it is told, what became of each message, a test."""
    viewer, now = viewer_of(request), timezone.now()
    channel = get_visible_channel(viewer, pk)
    initial = {"name": channel.name, "kinds": channel.kinds}
    sent = request.POST if request.method == "POST" else None
    form = ChannelChange(sent, team=channel.team, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            change_channel(actor=viewer, channel=channel, **form.cleaned_data)
        except (NotFound, Forbidden):
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            messages.success(request, "Saved.")
            return redirect("channels:detail", pk=pk)
    rows = messages_to(viewer, channel, now=now).order_by("-pk")
    context = {
        "channel": channel,
        "told": _told_of(channel),
        "form": form,
        "rows": tail_of(
            request,
            lambda before, most: (rows.filter(pk__lt=before) if before else rows)[:most],
            size=50,
        ).made(lambda row: (row, words_of(row.kind))),
        "now": now,
    }
    return render(request, "inbox/channel.html", context, status=422 if form.errors else 200)


@page("POST")
def channel_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Send a test, pause, resume or remove one."""
    viewer = viewer_of(request)
    if act not in _ACTS:
        raise Http404
    channel = get_visible_channel(viewer, pk)
    if act == "test":
        try:
            found = try_channel(actor=viewer, channel=channel)
        except DomainError as refused:
            say_refused(request, refused)
        else:
            level = messages.SUCCESS if found.is_there else messages.ERROR
            messages.add_message(request, level, found.said)
        return redirect("channels:detail", pk=pk)

    def done() -> str:
        if act == "remove":
            remove_channel(actor=viewer, channel=channel)
        else:
            change_channel(actor=viewer, channel=channel, is_paused=act == "pause")
        return _ACTS[act]

    if act == "remove":
        return said_and_back(request, done, "channels:list")
    return said_and_back(request, done, "channels:detail", pk=pk)


def _told_of(channel: Webhook) -> list[str]:
    return [NOTICE_RULES[NoticeKind(kind)].words for kind in channel.kinds]


def _show_list(request: HttpRequest, form: ChannelForm, *, status: int) -> HttpResponse:
    rows = leaf_of(request, visible_channels(viewer_of(request)), "page", size=50)
    context = {
        "form": form,
        "rows": rows.made(lambda channel: (channel, _told_of(channel))),
        "now": timezone.now(),
    }
    return render(request, "inbox/channels.html", context, status=status)

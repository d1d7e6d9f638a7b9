"""Webhooks: which programs are told what people are told, and what became of each delivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from accounts.errors import DomainError, Forbidden, NotFound
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from portal.pages.listing.tails import tail_of
from portal.serving.once import made_once
from scheduler.selectors.inbox import (
    get_visible_delivery,
    get_visible_webhook,
    latest_deliveries,
    visible_webhooks,
)
from scheduler.services.inbox import (
    add_webhook,
    pause_webhook,
    remove_webhook,
    resume_webhook,
    send_again,
)
from scheduler.states import NOTICE_RULES, NoticeKind

_ALREADY = (
    "The address was added with this form already, and its secret is not shown again. If you do "
    "not have it, remove the address and add it once more."
)
_ACTS: dict[str, tuple[Callable[..., Any], str]] = {
    "pause": (pause_webhook, "Nothing is sent there for now."),
    "resume": (resume_webhook, "It is told again, from now on."),
    "remove": (remove_webhook, "It is forgotten."),
}


class WebhookForm(forms.Form):
    """An address and what it is told."""

    url = forms.CharField(
        label="Address",
        max_length=500,
        help_text="Such as https://chat.example.org/hook; it gets a signed POST.",
        widget=forms.URLInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    kinds = forms.MultipleChoiceField(
        label="Tell it of",
        required=False,
        choices=[(str(kind), rule.words) for kind, rule in NOTICE_RULES.items()],
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: of everything.",
    )


@never_cache
@page("GET", "POST")
def webhook_list(request: HttpRequest) -> HttpResponseBase:
    """For administrators, who alone find the page; a new secret is shown in the answer, once."""
    viewer = viewer_of(request)
    form = WebhookForm(request.POST if request.method == "POST" else None)
    visible_webhooks(viewer)
    if request.method != "POST" or not form.is_valid():
        return _show(request, form, status=422 if form.is_bound else 200)
    try:
        hook, secret = made_once(request, _ALREADY, add_webhook, actor=viewer, **form.cleaned_data)
    except (NotFound, Forbidden):
        raise
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return _show(request, form, status=422)
    return _show(request, WebhookForm(), made=hook, secret=secret)


@page("POST")
def webhook_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Pause, resume or remove one."""
    viewer = viewer_of(request)
    if act not in _ACTS:
        raise Http404
    do, words = _ACTS[act]
    hook = get_visible_webhook(viewer, pk)

    def done() -> str:
        do(actor=viewer, webhook=hook)
        return words

    return said_and_back(request, done, "webhooks:list")


@page("POST")
def delivery_again(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Send one again."""
    viewer = viewer_of(request)
    delivery = get_visible_delivery(viewer, pk)

    def done() -> str:
        send_again(actor=viewer, delivery=delivery)
        if delivery.webhook.paused_at is not None:
            return "It is sent once the webhook is resumed."
        return "It is sent within half a minute."

    return said_and_back(request, done, "webhooks:list")


def _show(
    request: HttpRequest, form: WebhookForm, *, status: int = 200, **more: object
) -> HttpResponse:
    viewer, now = viewer_of(request), timezone.now()
    context = {
        "form": form,
        "hooks": leaf_of(request, visible_webhooks(viewer), "page", size=50).made(
            lambda hook: (hook, [NOTICE_RULES[NoticeKind(kind)].words for kind in hook.kinds])
        ),
        "deliveries": tail_of(
            request,
            lambda before, most: latest_deliveries(viewer, now=now, before=before, limit=most),
            size=50,
        ).made(lambda row: (row, NOTICE_RULES[NoticeKind(row.kind)].words)),
        "now": now,
        **more,
    }
    return render(request, "ops/webhooks.html", context, status=status)

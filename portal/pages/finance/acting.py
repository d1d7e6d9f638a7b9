"""How pages answer a decision: done and back, refused by field, or told that things have moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import Conflict, DomainError, Forbidden, NotFound
from portal.pages.access import told_of

Show = Callable[..., HttpResponse]


def decide(
    request: HttpRequest, act: Callable[[], str], show: Show, *back: Any, **context: Any
) -> HttpResponseBase:
    """Do it and go back with its words. A conflict shows the page as it is now, with status 409;
    another refusal with 422."""
    try:
        messages.success(request, act())
    except (NotFound, Forbidden):
        raise
    except Conflict as refused:
        messages.warning(request, refused.detail)
        return show(request, status=409, **context)
    except DomainError as refused:
        messages.error(request, told_of(refused, request))
        return show(request, status=422, **context)
    return redirect(*back)


def decide_by_form(
    request: HttpRequest,
    form: forms.Form,
    act: Callable[[dict[str, Any]], str],
    show: Show,
    *back: Any,
) -> HttpResponseBase:
    """The same for a form: what is wrong is said beside the field it names."""
    if not form.is_valid():
        return show(request, status=422, form=form)
    try:
        messages.success(request, act(form.cleaned_data))
    except (NotFound, Forbidden):
        raise
    except Conflict as refused:
        form.add_error(None, refused.detail)
        return show(request, status=409, form=form)
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        return show(request, status=422, form=form)
    return redirect(*back)

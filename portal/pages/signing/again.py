"""Forms that ask for the password again: it is asked on a page of its own, and then they go on."""

from __future__ import annotations

import json
from functools import wraps
from typing import Any

from allauth.account.internal.flows.reauthentication import STATE_SESSION_KEY
from allauth.core.internal.httpkit import serialize_request
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from accounts.adapter import password_is_fresh
from portal.pages.access import View

# What was sent is kept with the session until then; what opens that session is not kept in it.
_NOT_KEPT = ("HTTP_COOKIE", "HTTP_AUTHORIZATION")


def asks_password(view: View) -> View:
    """A view below `page` whose POST is done by who showed lately who they are."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method != "POST" or password_is_fresh(request):
            return view(request, *args, **kwargs)
        sent = json.loads(serialize_request(request))
        sent["META"] = {name: said for name, said in sent["META"].items() if name not in _NOT_KEPT}
        request.session[STATE_SESSION_KEY] = {"request": json.dumps(sent)}
        return redirect_to_login(request.path, reverse("account_reauthenticate"))

    return answer

"""Schemathesis with this API in this process: what is called, as whom, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import schemathesis
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from accounts.services import SCOPES, issue_token
from portal.api.docs import schema

# `nobody` has no token, `forger` has made one up.
STRANGERS = ("nobody", "forger")
ROLES = ("root", "alice", "lead", "finance", "operator", *STRANGERS)
COOKIE = "sessionid"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
    negative_data_rejection,
    missing_required_header,
    unsupported_method,
]
Headers = Mapping[str, str]
Call = Callable[[Any], str]


def document() -> Any:
    """The schema as Schemathesis reads it, with the program that answers."""
    loaded = schemathesis.openapi.from_dict(schema())
    loaded.app = get_wsgi_application()
    # A list that is too long by far is a body that is too large.
    rejection = loaded.config.checks.negative_data_rejection
    rejection.expected_statuses = [*rejection.expected_statuses, "413"]
    return loaded


def headers_of(person: Callable[[str], Any]) -> dict[str, Headers]:
    """A token for every role; `person` gives the user of that name."""
    made: dict[str, Headers] = {"nobody": {}, "forger": {"Authorization": "Bearer try_anything"}}
    for role in ROLES:
        if role not in made:
            issued = issue_token(actor=person(role), name="t", scopes=SCOPES, expires_in_days=1)
            made[role] = {"Authorization": f"Bearer {issued[1]}"}
    return made


def checks_for(case: Any, role: str) -> Sequence[Any]:
    """What an answer to this role has to keep.

    That valid data is accepted is asked of reading alone, as who may read all, without a query:
    most of what is written, and of what a list is narrowed to or goes on from, names something
    else, which has to be there. That nothing is open without a token is asked as those who have
    none; who has one needs no cookie.
    """
    if role in STRANGERS:
        return [*CHECKS, ignored_auth]
    if getattr(case.meta.phase.data, "parameter", None) == COOKIE:
        return [check for check in CHECKS if check is not negative_data_rejection]
    accepts = case.method.upper() == "GET" and role == "root" and not case.query
    return [*CHECKS, positive_data_acceptance] if accepts else CHECKS


def complaints(case: Any, people: Mapping[str, Headers]) -> Iterator[str]:
    """What is wrong with the answers to this case, of each role; nothing that is done stays."""
    for role, headers in people.items():
        with transaction.atomic():
            answer = case.call(headers=dict(headers))
            transaction.set_rollback(True)
        try:
            with transaction.atomic():
                case.validate_response(answer, checks=checks_for(case, role), headers=dict(headers))
                transaction.set_rollback(True)
        except (Exception, BaseExceptionGroup) as error:
            shown = [str(one) for one in getattr(error, "exceptions", ())] or [str(error)]
            yield f"{case.operation.label} as {role}: {'; '.join(shown)}"

"""Every operation of the schema, called with what the schema allows and with what it does not.

In this process, with an administrator's token: no server errors, no answer that is not documented,
and every answer of the shape that its operation says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from accounts.services import SCOPES, issue_token
from portal.api.docs import schema
from tests import scenes

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
CLOSERS = (request_started, request_finished)
EXAMPLES = {GenerationMode.POSITIVE: 2, GenerationMode.NEGATIVE: 1}


@pytest.fixture
def token(root, alice, project) -> str:
    """An administrator's, in a place where something runs."""
    cluster = scenes.build_cluster(root, nodes=1, gpus=2)
    scenes.start(scenes.submit(alice, project), cluster.node(1))
    return issue_token(actor=root, name="t", scopes=SCOPES, expires_in_days=1)[1]


@pytest.fixture
def one_connection() -> Iterator[None]:
    """The requests share the test's connection and its transaction, as with Django's client."""
    for signal in CLOSERS:
        signal.disconnect(close_old_connections)
    yield
    for signal in CLOSERS:
        signal.connect(close_old_connections)


def _complaint(operation: Any, mode: GenerationMode, token: str) -> str:
    """What is wrong with its answers; empty: nothing was found."""

    @settings(
        max_examples=EXAMPLES[mode],
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        with transaction.atomic():
            answer = case.call(headers={"Authorization": f"Bearer {token}"})
            transaction.set_rollback(True)
        case.validate_response(answer, checks=CHECKS)

    try:
        call()
    except (Exception, BaseExceptionGroup) as error:
        shown = [str(one) for one in getattr(error, "exceptions", ())] or [str(error)]
        return f"{operation.label} {mode.value}: {'; '.join(shown)}"
    return ""


@pytest.mark.django_db
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("one_connection")
def test_every_operation_answers_as_it_says(token: str) -> None:
    document: Any = schemathesis.openapi.from_dict(schema())
    found, called = [], 0
    for one in document.get_all_operations():
        operation = one.ok()
        operation.app = get_wsgi_application()
        for mode in GenerationMode:
            if mode is GenerationMode.NEGATIVE and operation.method == "get":
                continue  # odd queries are another test's, by hand
            found.append(_complaint(operation, mode, token))
            called += 1
    assert called > 120
    wrong = [complaint for complaint in found if complaint]
    assert not wrong, "\n\n".join(wrong)

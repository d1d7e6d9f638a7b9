"""Every operation of the schema, called with what the schema allows and with what it does not.

In this process, as every role and as nobody: no server errors, no answer that is not documented,
every answer of the shape that its operation says, nothing invalid accepted, nothing without a
token. `make test-long` does so systematically, and with chains of calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import ensure_resource_availability, use_after_free

from tests import scenes
from tests.api.schema_roles import (
    ROLES,
    STRANGERS,
    Headers,
    complaints,
    document,
    headers_of,
)

CLOSERS = (request_started, request_finished)
QUIET = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
}
PARTS = 4
MEMBERS = [role for role in ROLES if role not in ("root", *STRANGERS)]


@pytest.fixture
def people(root, alice, project, request) -> dict[str, Headers]:
    """Headers by role, in a place where something runs."""
    cluster = scenes.build_cluster(root, nodes=1, gpus=2)
    scenes.start(scenes.submit(alice, project), cluster.node(1))
    return headers_of(request.getfixturevalue)


@pytest.fixture
def one_connection() -> Iterator[None]:
    """The requests share the test's connection and its transaction, as with Django's client."""
    for signal in CLOSERS:
        signal.disconnect(close_old_connections)
    yield
    for signal in CLOSERS:
        signal.connect(close_old_connections)


def _operations(part: int, parts: int) -> list[Any]:
    return [one.ok() for one in document().get_all_operations()][part::parts]


def _generated(operation: Any, mode: GenerationMode) -> list[Any]:
    """A case or none: some operations take nothing that could be wrong."""
    found: list[Any] = []

    @settings(max_examples=1, phases=[Phase.generate], **QUIET)
    @given(case=operation.as_strategy(generation_mode=mode))
    def note(case: Any) -> None:
        found[:] = [case]

    note()
    return found


@pytest.mark.django_db
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("one_connection")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_answers_as_it_says(part: int, people: Any) -> None:
    """As the administrator, without a token, and as one of the other roles, which take turns."""
    wrong: list[str] = []
    called = 0
    for number, operation in enumerate(_operations(part, PARTS)):
        roles = ("root", STRANGERS[number % 2], MEMBERS[number % len(MEMBERS)])
        some = {role: people[role] for role in roles}
        for mode in GenerationMode:
            if mode is GenerationMode.NEGATIVE and operation.method == "get":
                continue  # odd queries are another test's, by hand
            for case in _generated(operation, mode):
                wrong += complaints(case, some)
                called += len(some)
    assert called > 150
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.timeout(2400)
@pytest.mark.usefixtures("one_connection")
@pytest.mark.parametrize("part", range(PARTS))
def test_each_rule_of_the_schema_is_broken_once_and_kept_once(part: int, people: Any) -> None:
    """As every role. Also: methods that nothing is documented for, headers that are left out."""
    wrong: list[str] = []
    called = 0
    for operation in _operations(part, PARTS):
        cases = operation.schema.iter_coverage_cases(
            operation,
            generation_modes=list(GenerationMode),
            generation_config=operation.schema.config.generation,
        )
        for case in cases:
            wrong += complaints(case, people)
            called += len(people)
    assert called > 3000
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("one_connection")
@pytest.mark.parametrize("role", ["root", *MEMBERS])
def test_what_was_made_is_there_and_what_was_deleted_is_not(role: str, people: Any) -> None:
    """Chains of calls that go on with what an earlier one answered."""
    answers: list[int] = []

    class Chains(document().as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            self.undone = transaction.atomic()
            self.undone.__enter__()

        def teardown(self) -> None:
            transaction.set_rollback(True)
            self.undone.__exit__(None, None, None)

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": dict(people[role])}

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            answers.append(response.status_code)
            # These alone: the rest is asked of every operation above, where the token is known to
            # be the caller's and not one that was generated.
            checks = [not_a_server_error, use_after_free, ensure_resource_availability]
            case.validate_response(response, checks=checks, recorder=self.recorder)

    Chains.run(settings=settings(max_examples=40, stateful_step_count=8, **QUIET))
    assert len(answers) > 100 and any(200 <= status < 300 for status in answers)

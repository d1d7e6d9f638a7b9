"""What a terminal tells of a token that is bound."""

from __future__ import annotations

import pytest

from accounts.services import create_project, issue_token
from tests.cli.conftest import Shell


@pytest.mark.django_db(transaction=True)
def test_whoami_names_the_bounds_and_a_foreign_address_is_no_sign_in(
    live_server, tmp_path, lead, team
):
    project = create_project(actor=lead, team=team, name="Digits")
    lead = type(lead).objects.get(pk=lead.pk)

    def terminal(*networks):
        _, secret = issue_token(
            actor=lead, name="ci", scopes=["jobs:read"], project=project, networks=networks
        )
        return Shell(tmp_path, {"TRAINYARD_SERVER": live_server.url, "TRAINYARD_TOKEN": secret})

    out, _ = terminal("127.0.0.0/8", "::1").run("whoami")
    assert "only for vision/digits" in out
    assert "only from 127.0.0.0/8, ::1" in out
    _, err = terminal("192.0.2.7").run("whoami", code=4)
    assert "unknown, expired or revoked" in err

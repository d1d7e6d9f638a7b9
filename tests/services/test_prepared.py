"""What `manage.py prepare` makes: people with passwords that are kept, tokens of local nodes."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from accounts.models import User
from portal.management.commands.prepare import Command

pytestmark = pytest.mark.django_db


@pytest.fixture
def prepare(monkeypatch, settings, tmp_path):
    """The command over tables that are laid."""
    settings.STATE_DIR = tmp_path
    monkeypatch.setattr(Command, "_lay_tables", lambda self: None)
    return lambda *words: call_command("prepare", *words)


def test_nobody_is_made_whose_password_is_not_kept(prepare, monkeypatch, tmp_path):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Command, "_node_token", interrupt)
        prepare("--demo", "--node-token", "local=default")
    assert not User.objects.filter(username__in=("admin", "alice")).exists()
    prepare("--demo")
    kept = (tmp_path / "accounts.txt").read_text()
    assert "admin\t" in kept and "alice\t" in kept

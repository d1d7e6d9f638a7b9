"""What `manage.py prepare` makes: people with passwords that are kept, tokens of local nodes."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from accounts.models import User
from portal.management import enrolling
from portal.management.commands.prepare import Command
from scheduler.agent.config import NodeIdentity, write_identity
from scheduler.models import Node
from scheduler.services.errors import Conflict
from scheduler.services.nodes import enrol_node, retire_node
from scheduler.services.nodes.recounting import begin_recount
from scheduler.states import NodeState
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def prepare(monkeypatch, settings, tmp_path):
    """The command over tables that are laid."""
    settings.STATE_DIR, settings.DATABASE_URL = tmp_path, ""
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


@pytest.fixture
def asked(prepare, root, capsys):
    """What `prepare` says of the node `local`: its token, and why there is none."""
    User.objects.filter(pk=root.pk).update(username="admin")

    def ask() -> tuple[str, str]:
        capsys.readouterr()
        prepare("--node-token", "local=default", "--json")
        said = json.loads(capsys.readouterr().out)
        return said["node_tokens"].get("local", ""), said["node_troubles"].get("local", "")

    return ask


def test_what_calls_it_keeps_its_own_rights_for_files(prepare):
    before = os.umask(0o027)
    try:
        prepare("--demo")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def enrol(secret: str) -> str:
    return enrol_node(request=scenes.enrol_request(secret, "local", 2)).node_token


def keep(tmp_path, token: str, number: int = 1) -> None:
    identity = NodeIdentity("http://127.0.0.1:1", number, "local", "", token)
    write_identity(tmp_path / "nodes" / "local", identity)


def test_a_node_with_a_good_token_in_its_folder_gets_none(asked, tmp_path):
    secret, _ = asked()
    keep(tmp_path, enrol(secret))
    assert asked() == ("", "")


@pytest.mark.parametrize("left", [None, "", '{"node_tok'])
def test_a_node_whose_folder_is_gone_or_unreadable_enrols_again(asked, tmp_path, left):
    """As after a restore into an empty installation, or an end just after the server's commit."""
    secret, _ = asked()
    enrol(secret)
    if left is not None:
        (tmp_path / "nodes" / "local").mkdir(parents=True)
        (tmp_path / "nodes" / "local" / "node.json").write_text(left)
    secret, trouble = asked()
    assert secret.startswith("tyn_") and not trouble
    enrol(secret)
    assert Node.objects.get(name="local").state == NodeState.READY


def test_a_folder_of_another_database_is_told(asked, tmp_path):
    keep(tmp_path, "tya_of-another")
    secret, trouble = asked()
    assert not secret and "of another database" in trouble and "nodes/local" in trouble


def test_a_node_that_was_retired_here_enrols_again_from_its_folder(asked, tmp_path, root):
    secret, _ = asked()
    token, node = enrol(secret), Node.objects.get(name="local")
    keep(tmp_path, token, node.pk)
    retire_node(actor=root, node=node)
    secret, trouble = asked()
    assert secret.startswith("tyn_") and not trouble


def test_an_earlier_token_beside_a_known_node_enrols_again(asked, tmp_path):
    secret, _ = asked()
    enrol(secret)
    keep(tmp_path, "tya_older-than-the-database")
    assert asked()[0].startswith("tyn_")


def test_a_node_that_may_have_jobs_is_not_taken_out(asked, monkeypatch):
    secret, _ = asked()
    enrol(secret)
    begin_recount(now=timezone.now())
    secret, trouble = asked()
    assert not secret and "After a restore" in trouble
    Node.objects.update(counts_from=None)

    def refuse(**_: object) -> None:
        raise Conflict("Jobs still run on this node.")

    monkeypatch.setattr(enrolling, "retire_node", refuse)
    secret, trouble = asked()
    assert not secret and "jobs are on the node" in trouble
    Node.objects.update(state=NodeState.LOST)
    assert asked()[0].startswith("tyn_")


def test_a_node_that_calls_is_not_taken_from_another_installation(asked, settings):
    secret, _ = asked()
    enrol(secret)
    settings.DATABASE_URL = "postgres:///shared"
    secret, trouble = asked()
    assert not secret and "another installation may share this database" in trouble
    Node.objects.update(last_seen_at=timezone.now() - timedelta(minutes=2))
    assert asked()[0].startswith("tyn_")


def test_an_installation_without_that_administrator_is_told(prepare, root, capsys):
    prepare("--node-token", "local=default", "--json")
    said = json.loads(capsys.readouterr().out)
    assert "no administrator named admin" in said["node_troubles"]["local"]

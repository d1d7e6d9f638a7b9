"""Days of use and waste summed at an operator's word."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests import scenes
from tests.scenes import ended, start, submit, sync

pytestmark = pytest.mark.django_db


def test_an_operator_sums_at_once_or_again(root, alice, project, capsys):
    begin = timezone.now() - timedelta(days=6)
    node = scenes.build_cluster(root, nodes=1, gpus=1, now=begin).node(1)
    attempt = start(submit(alice, project, now=begin), node, now=begin)
    sync(node, ended(attempt), now=begin + timedelta(days=1))
    call_command("sum_days")
    first, second = (str((begin + timedelta(days=n)).date()) for n in (0, 1))
    call_command("sum_days", "--again", "--from", first, "--to", second)
    said = [line for line in capsys.readouterr().out.splitlines() if "were summed" in line]
    assert len(said) == 2 and said[1] == "2 days were summed."
    for words, wrong in (
        (("--from", "2026-11-20"), "--from and --to choose what is summed --again"),
        (("--again", "--from", "soon"), "--from: write a day"),
        (("--again", "--from", "2026-11-20", "--to", "2026-11-19"), "--to: it lies before"),
    ):
        with pytest.raises(CommandError, match=wrong):
            call_command("sum_days", *words)

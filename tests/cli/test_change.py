"""`trainyard change`, with the words of `trainyard submit`."""

from __future__ import annotations

import pytest

from portal.cli.changing.change import _show_starts

pytestmark = [pytest.mark.stack, pytest.mark.once]

HELD = ["--gpus", "1", "--memory", "128MB", "--time", "5m", "--hold", "-p", "vision/digits"]


def held_by(shell, *words: str) -> str:
    return str(shell.json("submit", *HELD, *words, "--", "true")["id"])


def test_every_option_changes_what_submit_says_with_the_same_word(terminal_of):
    alice = terminal_of("alice")
    number = held_by(alice)
    model = alice.json("pools")[0]["models"][0]
    for words, field, value in (
        (["--time", "20m"], "time_limit_s", 1200),
        (["--tier", "exploratory"], "tier", "exploratory"),
        (["--nodes", "2"], "nodes", 2),
        (["--nodes", "1..2"], "nodes_min", 1),
        (["--gpus", "2"], "gpus_per_node", 2),
        (["-g", "0"], "gpus_per_node", 0),
        (["--gpu-model", model, "--gpus", "1"], "gpu_model", model),
        (["--gpu-model", "any"], "gpu_model", ""),
        (["--pool", "default"], "pool", "default"),
        # As scripts of before have it.
        (["--time-limit", "30m"], "time_limit_s", 1800),
        (["--gpus-per-node", "2"], "gpus_per_node", 2),
    ):
        job = alice.json("change", number, *words)["job"]
        assert (job["id"], job[field]) == (int(number), value), words
    alice.run("cancel", number)


def test_it_says_what_a_change_means_and_changes_nothing_when_only_asked(terminal_of):
    alice = terminal_of("alice")
    number = held_by(alice)
    said, remarks = alice.run("change", number, "--gpus", "2", "--dry-run")
    assert "It may cost" in said and "changed" not in said and "Nobody starts later" in remarks
    assert alice.json("change", number, "--dry-run")["job"]["gpus_per_node"] == 1
    assert f"Job {number} is changed." in alice.run("change", number, "--gpus", "2")[0]
    alice.run("cancel", number)
    _, err = alice.run("change", number, "--gpus", "1", code=5)
    assert "has ended" in err


def test_whose_start_moves_is_said_in_moments_that_people_read(capsys):
    own = {"job": 7, "was_at": "2026-11-26T09:30:12Z", "then_at": None}
    later = own | {"job": None, "then_at": "2026-11-26T12:00:59Z"}
    _show_starts({"own": own, "delayed": [later], "delayed_count": 12})
    said = capsys.readouterr().out
    assert "Its own start at the latest: unknown; as it is: 2026-11-26 09:30 UTC." in said
    assert "another's" in said and "2026-11-26 12:00 UTC" in said
    assert "And 11 more." in said


def test_what_cannot_be_asked_for_names_the_field_and_strangers_find_nothing(terminal_of):
    alice = terminal_of("alice")
    number = held_by(alice)
    for words, said in (
        (["--pool", "nowhere"], "pool: there is no pool nowhere"),
        (["--gpu-model", "H300"], "gpu_model: pool default has no"),
        (["--gpus", "60"], "gpus_per_node: the largest node"),
        (["--gpus", "-1"], "--gpus"),
        (["--nodes", "3..1"], "nodes: must begin with the fewest"),
        (["--time", "soon"], "time_limit: 'soon' is not a duration"),
        (["--tier", "first"], "tier"),
    ):
        assert said in alice.run("change", number, *words, code=2)[1], words
    terminal_of("carol").run("change", number, "--gpus", "2", code=3)
    alice.run("cancel", number)

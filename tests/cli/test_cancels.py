"""`trainyard cancels` and `sets cancel` against the real servers."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.once]
WHY = "writes to the wrong bucket"


def test_two_people_end_an_array_of_a_third(terminal_of):
    alice, lead, admin = terminal_of("alice"), terminal_of("lena"), terminal_of("admin")
    words = ["--array", "0-100", "--begin", "+30d", "--cpus", "1", "--gpus", "0"]
    made = alice.json("submit", "-p", "vision/digits", *words, "--", "true")
    number = str(made["set"] if "set" in made else made["id"])
    _, err = lead.run("sets", "cancel", number, code=5)
    assert "Say why" in err
    out, _ = lead.run("sets", "cancel", number, "--reason", WHY)
    assert "waits for a second person" in out
    [found] = [one for one in admin.json("cancels") if one["set"] == int(number)]
    cancel = str(found["id"])
    assert WHY in admin.run("cancels")[0]
    _, err = lead.run("cancels", "agree", cancel, code=4)
    assert "another person" in err
    out, _ = admin.run("cancels", "refuse", cancel, "--reason", "They are needed.")
    assert "refused" in out
    again = lead.json("sets", "cancel", number, "--reason", WHY)
    out, _ = lead.run("cancels", "withdraw", str(again["id"]))
    assert "withdrawn" in out
    last = lead.json("sets", "cancel", number, "--reason", WHY)
    out, _ = admin.run("cancels", "agree", str(last["id"]))
    assert "101 of 101 jobs end" in out
    alice.run("cancels", "agree", "987654", code=3)
    _, err = lead.run("cancels", "propose", str(made["id"]), "--reason", WHY, code=5)
    assert "no second person" in err

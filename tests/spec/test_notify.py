"""What a job may ask to be told of, what sbatch says of it, and how it reads."""

import pytest

from scheduler.spec import SpecInvalid, parse_spec
from scheduler.spec.rules import read_rules, rule_problems
from scheduler.spec.slurm import convert
from scheduler.states import wish_sentence

GOOD = {"name": "train", "project": "vision/digits", "command": "python train.py"}


def read(notify, **more):
    return parse_spec({**GOOD, "notify": notify, **more})


@pytest.mark.parametrize(
    ("notify", "words"),
    [
        ("begin", "'begin' is none of start, end, fail, retry, preempt, warn, array, none"),
        ("none,end", "none stands alone"),
        (["array"], "name of what, such as fail,array"),
        (7, "must be a list"),
    ],
)
def test_a_wrong_word_is_refused_with_those_there_are(notify, words):
    with pytest.raises(SpecInvalid) as refused:
        read(notify)
    (problem,) = refused.value.problems
    assert problem.field == "notify" and words in problem.message


def test_a_large_array_does_not_tell_of_each_task():
    assert read("fail,array", array="0-49").notify == ("fail", "array")
    with pytest.raises(SpecInvalid) as refused:
        read("fail,array", array="0-50")
    (problem,) = refused.value.problems
    assert problem.field == "notify" and "leave array out" in problem.message


def test_it_reads_back_and_a_template_locks_it():
    spec = read("End, start,end")
    assert spec.notify == ("start", "end")
    assert parse_spec(spec.document()) == parse_spec(spec.readable()) == spec
    assert "notify" not in read(()).readable()
    rules = read_rules({"notify": "locked"})
    assert not rule_problems(rules, {"notify": ["start", "end"]}, spec)
    (problem,) = rule_problems(rules, {"notify": ["fail"]}, spec)
    assert problem.field == "notify" and "locked" in problem.message


def test_it_is_said_in_words():
    assert wish_sentence(()) == ""
    assert wish_sentence(("start", "end")) == (
        "You are told by mail and in the inbox when it starts and when it ends."
    )
    assert wish_sentence(("none",)) == "You are told nothing of its course."
    words = wish_sentence(("fail", "array"), has_mail=False, is_array=True)
    assert words == (
        "You are told in the inbox (no mail address is known) when it fails, of each task."
    )


@pytest.mark.parametrize(
    ("types", "expected", "words"),
    [
        ("BEGIN,END", ["start", "end"], ""),
        ("fail,requeue", ["fail", "retry"], ""),
        ("ALL", ["start", "end", "fail", "retry"], ""),
        ("ALL,ARRAY_TASKS", ["start", "end", "fail", "retry", "array"], ""),
        ("END,TIME_LIMIT_90", ["end", "warn"], "80 and 90 % both"),
        ("END,STAGE_OUT", ["end"], "nothing here is like STAGE_OUT"),
        ("NONE", ["none"], ""),
        ("SOMETIMES", None, "choose from notify"),
        ("TIME_LIMIT_50", None, "alone tells of nothing"),
    ],
)
def test_mail_types_of_sbatch_become_its_words(types, expected, words):
    found = convert(f"#!/bin/sh\n#SBATCH --mail-type={types}\ntrue\n")
    assert found.document.get("notify") == expected
    (remark,) = (one for one in found.remarks if one.option.startswith("--mail-type"))
    assert remark.became == ("lost" if expected is None else "changed" if words else "taken")
    assert words in remark.words


def test_mails_go_to_who_submits_alone():
    text = "#!/bin/sh\n#SBATCH --mail-user=Alice@example.org\ntrue\n"
    own = ("alice@example.org", "alice")
    (mine,) = (one for one in convert(text, own=own).remarks if "mail-user" in one.option)
    (other,) = (one for one in convert(text).remarks if "mail-user" in one.option)
    assert mine.became == "taken"
    assert other.became == "changed" and "owner alone" in other.words

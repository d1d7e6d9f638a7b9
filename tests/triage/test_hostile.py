"""Whatever a program prints: bounded, linear, harmless; and it never pays for its own words."""

from __future__ import annotations

import time

import pytest

from scheduler.states import INFRASTRUCTURE, EndReason, FailureClass
from scheduler.triage import MAX_TAIL_BYTES, Failure, LogTail, judge, read_tail
from scheduler.triage.programs import TABLE

HOSTILE = {
    "escapes": b"\x1b[" + b"1;" * MAX_TAIL_BYTES,
    "bare escapes": b"\x1b" * MAX_TAIL_BYTES,
    "open links": b"\x1b]" * MAX_TAIL_BYTES,
    "one line": b"A" * MAX_TAIL_BYTES,
    "dots": b"A.a_" * MAX_TAIL_BYTES,
    "binary": bytes(range(256)) * 2048,
    "returns": b"\r" * MAX_TAIL_BYTES,
    "empty lines": b"\n" * MAX_TAIL_BYTES,
    "many hits": b"xid 79, CUDA out of memory KeyError: nccl\n" * 20_000,
    "ranks": b"[rank0]: " * 60_000,
    "frames": b'  File "\n    x\n' * 40_000,
}


def judged(raw: bytes, **more):
    return judge(Failure(EndReason.EXIT_CODE, 1, tails=(LogTail(0, raw),), **more))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_judged_quickly_and_bounded(name):
    began = time.process_time()
    finding = judged(HOSTILE[name])
    assert time.process_time() - began < 1.0
    assert len(finding.evidence) <= 3
    assert all(len(one.text) <= 300 for one in finding.evidence)
    assert not any(ord(char) < 32 for one in finding.evidence for char in one.text)


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_no_faster_than_the_text(name):
    def cost(size: int) -> float:
        tail = (HOSTILE[name] * 2)[:size]
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            judged(tail)
            best = min(best, time.process_time() - began)
        return best

    # Four times the text; quadratic would be sixteen. A floor keeps the clock's grain out.
    assert cost(MAX_TAIL_BYTES) <= 10 * max(cost(MAX_TAIL_BYTES // 4), 0.002)


def test_colours_and_progress_bars_do_not_hide_the_message():
    raw = b"10%\r20%\r\x1b[31mtorch.OutOfMemory\x1b[0mError: CUDA out of \x1b[1mmemory\x1b[0m.\n"
    finding = judged(raw)
    assert finding.failure == FailureClass.USER_RESOURCE
    assert finding.evidence[0].text == "torch.OutOfMemoryError: CUDA out of memory."


def test_lines_keep_their_numbers_when_the_tail_is_cut():
    lines = b"".join(b"line %d\n" % number for number in range(1, 60_001))
    shown = read_tail(LogTail(0, lines))
    assert all(line.text == f"line {line.number}" for line in shown)
    cut = read_tail(LogTail(0, b"lf\nwhole\n", first_line=7, is_cut=True))
    assert [(line.number, line.text) for line in cut] == [(8, "whole")]


@pytest.mark.parametrize("signature", TABLE, ids=lambda one: one.name)
def test_no_text_alone_confirms_an_infrastructure_failure(signature):
    for words in signature.any_of:
        finding = judged(" ".join(words).encode() + b"\n", detail="ended by signal SIGABRT")
        assert not (finding.is_confirmed and finding.failure in INFRASTRUCTURE)


def test_names_of_signatures_are_single_and_their_words_small():
    names = [one.name for one in TABLE]
    assert len(names) == len(set(names))
    assert all(w == w.lower() for one in TABLE for words in one.any_of for w in words)


def test_what_the_program_coped_with_is_not_its_end():
    raw = b"WARNING: Connection reset by peer, retrying\nstep 1\nstep 2\nKeyError: 'a'\n"
    assert judged(raw).signature == "uncaught_exception"


def test_source_quoted_by_a_traceback_is_no_message():
    raw = b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    raise MemoryError'
    assert judged(raw + b"\nKeyError: 1\n").signature == "uncaught_exception"


@pytest.mark.parametrize("reason", list(EndReason))
def test_every_end_can_be_judged(reason):
    finding = judge(Failure(reason, 1, "something", 0, (), ()))
    assert isinstance(finding.advice, str)


def test_a_node_without_memory_is_told_from_one_that_was_lost():
    detail = "ended by signal SIGKILL; the node ran out of memory and the kernel ended a process"
    finding = judge(Failure(EndReason.NODE_LOST, 137, detail))
    assert (finding.failure, finding.signature) == (FailureClass.INFRA_NODE, "node_out_of_memory")
    assert "free of charge" in finding.advice


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        (b"Caused by: java.lang.OutOfMemoryError: Java heap space", "host_out_of_memory"),
        (b"ray.exceptions.OutOfMemoryError: Task was killed", "host_out_of_memory"),
        (b"torch.OutOfMemoryError: Allocation on device 0 failed", "cuda_out_of_memory"),
        (b"torch.cuda.OutOfMemoryError: Tried to allocate 2 GiB", "cuda_out_of_memory"),
    ],
)
def test_whose_memory_ran_out_is_told_by_who_says_so(line, signature):
    assert judged(b"step 1\n" + line + b"\n").signature == signature

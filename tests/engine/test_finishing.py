"""How a job stands to the moment by which it has to be finished."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.states import foresee_finish, span_words

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = 3600


def at(hours):
    return None if hours is None else NOW + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("policy", "starts", "runs_h", "by", "outlook", "slack_h", "words"),
    [
        ("keep", (1, 2), (1, 2), 5, "likely", 3, "with 3 h to spare."),
        ("keep", (1, 4), (1, 2), 5, "likely", 3, "with 3 h to spare, but not certain."),
        # What was foreseen and did not come starts now at best.
        ("keep", (-3, -2), (1, 2), 5, "likely", 4, "with 4 h to spare."),
        ("keep", (4, 5), (2, 2), 5, "unlikely", -1, "to end 1 h after 20 Nov 2026, 17:00 UTC."),
        ("keep", (6, 7), (1, 1), 5, "impossible", -2, "to start only at 20 Nov 2026, 18:00 UTC"),
        ("keep", (None, None), (1, 2), 5, "unknown", None, "Nobody can say yet"),
        ("keep", (None, None), (6, 6), 5, "unlikely", -1, "Even if it began at once"),
        ("keep", (1, 2), (1, 1), -1, "impossible", None, "The moment is over."),
        # Two hours are its time limit, however long such jobs run.
        ("cancel", (1, 2), (1, 1), 5, "likely", 2, "to start in time, with 2 h to spare."),
        ("cancel", (1, 4), (0, 0), 5, "likely", 2, "with 2 h to spare, but not certain."),
        ("cancel", (4, 5), (0, 0), 5, "unlikely", -1, "to start 1 h too late"),
        ("cancel", (None, None), (1, 1), 5, "unknown", None, "its start is not known"),
        ("cancel", (0, 0), (1, 1), 1, "impossible", None, "it is not started any more"),
    ],
)
def test_a_job_stands_to_its_moment_as_its_start_and_its_run_say(
    policy, starts, runs_h, by, outlook, slack_h, words
):
    runs_s = tuple(hours * HOUR for hours in runs_h)
    found = foresee_finish(at(by), policy, 2 * HOUR, tuple(map(at, starts)), runs_s, NOW)
    assert (found.outlook, found.slack_s) == (outlook, slack_h and slack_h * HOUR)
    assert words in found.sentence


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (86_400, "24 h"),
        (190_000, "2 d 4 h"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(seconds, words):
    assert span_words(seconds) == words

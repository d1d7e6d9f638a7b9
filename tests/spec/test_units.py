"""Durations and sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.spec.units import format_duration, format_size_mib, parse_duration, parse_size_mib


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("2h", 7200),
        ("1d12h", 129600),
        ("1d 12h", 129600),
        ("1w", 604800),
        ("45s", 45),
        ("3600", 3600),
        (3600, 3600),
        ("1:30:00", 5400),
        ("1-12:00:00", 129600),
        ("2-6", 194400),
        ("PT2H", 7200),
        ("P1DT30M", 88200),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "2x", "P", "PT", "P1Y", "1:2", "1.5h", "-1h", True, None, 1.5]
)
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("16GiB", 16384),
        ("16Gi", 16384),
        ("16GB", 15259),
        ("512MiB", 512),
        ("1.5GiB", 1536),
        ("2TiB", 2097152),
        ("100", 100),
        (100, 100),
        ("1KB", 1),
    ],
)
def test_sizes_round_up_to_whole_mib(text, mib):
    assert parse_size_mib(text) == mib


@pytest.mark.parametrize("text", ["", "GB", "1.5", "-1GB", "1XB", True, None, 1.5, "1 000"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match=r"is not a size|needs a unit"):
        parse_size_mib(text)


@given(st.integers(0, 10**9))
def test_durations_read_back(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 10**9))
def test_sizes_read_back(mib):
    assert parse_size_mib(format_size_mib(mib)) == mib

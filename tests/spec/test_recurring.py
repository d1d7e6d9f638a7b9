"""Rules of time as cron writes them, and when they are due over changes of clocks."""

from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.spec.recurring.dues import dues_after, latest_due, next_due, read_zone
from scheduler.spec.recurring.rules import WORDS, read_time_rule
from scheduler.spec.recurring.spoken import spoken

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def dues(rule: str, after: str, zone: ZoneInfo = BERLIN, most: int = 3) -> list[str]:
    """The next moments in UTC, short."""
    found = islice(dues_after(read_time_rule(rule), zone, at(after)), most)
    return [due.strftime("%m-%d %H:%M") for due in found]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("30 2 * * *", ["12-01 01:30", "12-02 01:30", "12-03 01:30"]),
        ("*/20 8-9 * * *", ["12-01 07:00", "12-01 07:20", "12-01 07:40"]),
        ("0 9 * * MON-FRI", ["12-01 08:00", "12-02 08:00", "12-03 08:00"]),
        ("0 0 * * sat-sun", ["12-03 23:00", "12-04 23:00", "12-10 23:00"]),
        ("0 0 * * 7", ["12-04 23:00", "12-11 23:00", "12-18 23:00"]),
        ("0 0 1,15 * *", ["11-30 23:00", "12-14 23:00", "12-31 23:00"]),
        # Either will do where both days are named, both have to hold where one begins with *.
        ("0 12 13 * fri", ["12-03 11:00", "12-10 11:00", "12-13 11:00"]),
        ("0 12 */2 * fri", ["12-03 11:00", "12-17 11:00", "12-31 11:00"]),
        ("@hourly", ["11-30 23:00", "12-01 00:00", "12-01 01:00"]),
        ("@monthly", ["11-30 23:00", "12-31 23:00", "01-31 23:00"]),
    ],
)
def test_a_rule_is_due_when_cron_would_have_it(rule, expected):
    assert dues(rule, "2027-11-30T22:30") == expected


def test_the_29th_of_february_comes():
    assert next_due(read_time_rule("0 0 29 feb *"), ZoneInfo("UTC"), at("2096-03-01")) == at(
        "2104-02-29"
    )


def test_a_time_that_clocks_leave_out_is_due_at_the_next_minute_there_is():
    # On 28 March 2027 clocks in Berlin go from 2:00 to 3:00, which is 1:00 UTC.
    assert dues("30 2 * * *", "2027-03-27T12:00") == ["03-28 01:00", "03-29 00:30", "03-30 00:30"]
    # What falls on the same minute by it comes once.
    assert dues("*/30 2-3 * * *", "2027-03-27T12:00", most=3) == [
        "03-28 01:00",
        "03-28 01:30",
        "03-29 00:00",
    ]


def test_a_time_that_comes_twice_is_due_once():
    # On 31 October 2027 clocks in Berlin go back from 3:00 to 2:00, which is 1:00 UTC.
    assert dues("30 2 * * *", "2027-10-30T12:00") == ["10-31 00:30", "11-01 01:30", "11-02 01:30"]
    assert dues("30 2 * * *", "2027-10-31T00:45", most=1) == ["11-01 01:30"]
    assert dues("@hourly", "2027-10-30T23:30") == ["10-31 00:00", "10-31 02:00", "10-31 03:00"]


def test_a_day_that_a_place_left_out_is_due_after_it():
    apia = ZoneInfo("Pacific/Apia")
    assert dues("0 12 30 12 *", "2011-12-29T00:00", apia, 1) == ["12-30 10:00"]


def test_the_latest_within_a_span_counts_for_those_before():
    rule = read_time_rule("*/10 * * * *")
    found = latest_due(rule, BERLIN, after=at("2027-01-01T10:00"), until=at("2027-01-01T10:59"))
    assert found == at("2027-01-01T10:50")
    nothing = latest_due(rule, BERLIN, after=at("2027-01-01T10:50"), until=at("2027-01-01T10:59"))
    assert nothing is None


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("* * * *", "has 4 fields; write five"),
        ("", "has 0 fields; write five"),
        ("@reboot", "knows no word @reboot; write one of @hourly"),
        ("60 * * * *", "has '60' as minute; write 0 to 59"),
        ("0 0 0 * *", "has '0' as day of month; write 1 to 31"),
        ("0 0 * * funday", "has 'funday' as day of week; write 0 to 7, or sun, mon"),
        ("0 0 l * *", "has 'l' as day of month"),
        ("0 0 ? * *", "has '?' as day of month; write numbers"),
        ("5/15 * * * *", "a step needs a range, such as 5-59/15"),
        ("*/0 * * * *", "has a step of 0 as minute; write 1 to 59"),
        ("0 22-4 * * *", "runs backwards; write two ranges"),
        ("0 0 30 feb *", "never comes"),
        ("0 " * 100, "is longer than 120"),
        ("٣ * * * *", "has '٣' as minute"),
    ],
)
def test_what_cannot_be_read_is_said_with_what_to_write(rule, said):
    with pytest.raises(ValueError) as refused:
        read_time_rule(rule)
    assert said in str(refused.value)


def test_a_zone_is_known_by_its_name_alone():
    assert read_zone("Europe/Berlin") == BERLIN
    for name in ("", "Nowhere", "../etc/passwd", "CET+1", "europe/berlin\0"):
        with pytest.raises(ValueError, match="Europe/Berlin"):
            read_zone(name)


@given(
    rule=st.sampled_from(sorted({*WORDS, "*/7 1-3 * * *", "59 23 31 * *", "15 0 * 10 sun"})),
    zone=st.sampled_from(["Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "UTC"]),
    after=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)),
)
def test_moments_rise_and_asking_again_from_one_gives_the_next(rule, zone, after):
    read, place = read_time_rule(rule), read_zone(zone)
    found = list(islice(dues_after(read, place, after.replace(tzinfo=UTC)), 4))
    assert found == sorted(set(found))
    assert found[0] > after.replace(tzinfo=UTC)
    for one, following in pairwise(found):
        assert next_due(read, place, one) == following


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("30 2 * * mon-fri", "At 02:30, Monday to Friday"),
        ("@hourly", "Every hour at :00, every day"),
        ("*/15 * * * *", "Every 15 minutes, every day"),
        ("* * * * sat,sun", "Every minute, Saturday and Sunday"),
        ("0 */6 1 * *", "At 00:00, 06:00, 12:00 and 18:00, on the 1st"),
        ("5 */2 * * fri,mon", "Every 2 hours at :05, Monday and Friday"),
        ("0 9,17 11,22 jan,jul *", "At 09:00 and 17:00, on the 11th and 22nd in January and July"),
        ("0 3 1 * sun", "At 03:00, on the 1st and on every Sunday"),
        ("7,8 * * * *", ""),
        ("0 1-7 * * *", ""),
        ("0 3 */2 * */2", ""),
    ],
)
def test_a_rule_is_said_as_people_do_where_that_is_easier(rule, said):
    assert spoken(read_time_rule(rule)) == said

"""What a session's program says to browsers of itself, and what the portal says in its place."""

from __future__ import annotations

import pytest

from portal.live.sessions.headers import outward

OURS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"x-frame-options": b"SAMEORIGIN",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}


@pytest.mark.parametrize("name", [*OURS, b"server", b"x-powered-by", b"via"])
def test_its_own_word_on_these_does_not_count_and_no_version_comes_out(name):
    said = outward([(name, b"unsafe-none/1.2.3"), (b"content-type", b"text/html")], 7)
    assert [value for each, value in said if each == name] == ([OURS[name]] if name in OURS else [])
    assert (b"content-type", b"text/html") in said


def test_a_programs_policy_stands_beside_ours_and_nobody_else_frames_it():
    policy = b"content-security-policy"
    said = [v for n, v in outward([(policy, b"default-src 'self'")], 7) if n == policy]
    assert said == [b"default-src 'self'", b"frame-ancestors 'self'"]


@pytest.mark.parametrize(
    ("cookie", "kept"),
    [
        (b"mine=1; Path=/; Domain=example.org", b"mine=1; Path=/s/7/"),
        (b'consent={"a":1, "b":[2]}; path=/', b'consent={"a":1, "b":[2]}; Path=/s/7/'),
        (
            b"_xsrf=2|ab; Expires=Wed, 21 Oct 2026 07:28:00 GMT; HttpOnly; SameSite=Lax; x=y",
            b"_xsrf=2|ab; Expires=Wed, 21 Oct 2026 07:28:00 GMT; HttpOnly; SameSite=Lax; "
            b"Path=/s/7/",
        ),
        (b"trainyard_session=k; Path=/", None),
        (b'sessionid="stolen"', None),
        (b" sessionid =stolen", None),
        (b"=sessionid=stolen", None),
        (b"sessionid", None),
        (b"", None),
    ],
)
def test_a_programs_cookies_stay_below_its_own_path_and_none_is_ours(cookie, kept):
    said = [value for name, value in outward([(b"set-cookie", cookie)], 7) if name == b"set-cookie"]
    assert said == ([kept] if kept else [])

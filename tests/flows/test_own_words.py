"""What the real servers say of themselves: files, pages of sessions, and what is not there."""

from __future__ import annotations

import re

import httpx
import pytest

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]


def test_files_sessions_and_refusals_carry_strict_headers_and_name_no_program(stack):
    with httpx.Client(base_url=stack.address, timeout=30) as browser:
        page = browser.get("/accounts/login/")
        files = sorted(set(re.findall(r'(?:href|src)="(/static/[^"#]+)', page.text)))
        assert {path.rpartition(".")[2] for path in files} >= {"css", "js", "svg"}
        paths = [*files, "/s/999999/x", "/static/none.css", "/no/such/", "/healthz", "/jobs/"]
        answers = [page, *map(browser.get, paths), browser.post("/jobs/new/", data={"x": "1"})]
    assert {answer.status_code for answer in answers} == {200, 302, 403, 404}
    wrong = []
    for answer in answers:
        policy = answer.headers.get("content-security-policy", "")
        told = {
            "policy": "frame-ancestors 'none'" in policy and "unsafe" not in policy,
            "nosniff": answer.headers.get("x-content-type-options") == "nosniff",
            "referrer": answer.headers.get("referrer-policy") in ("same-origin", "no-referrer"),
            "opener": answer.headers.get("cross-origin-opener-policy") == "same-origin",
            "no program": not {"server", "x-powered-by", "via"} & set(answer.headers),
        }
        wrong += [(str(answer.url), what) for what, holds in told.items() if not holds]
    assert not wrong

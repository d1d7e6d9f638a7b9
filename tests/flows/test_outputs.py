"""A job's files from its node to whoever may read them: page, REST and command line."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time

import pytest

from portal.embedded.places import ROOT

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]

SCRIPT = """
cd "$TRAINYARD_OUTPUT_DIR"
mkdir -p model
i=0
while [ $i -lt 40000 ]; do
  i=$((i+1)); echo "weights $i of the model, as text"
done > model/last.txt
printf 0.5 > loss.csv
ln -s /etc/passwd secrets
"""
WEIGHTS = "".join(f"weights {n} of the model, as text\n" for n in range(1, 40_001)).encode()


def _files(stack, job):
    with stack.api() as api:
        reply = api.get(f"/jobs/{job}/outputs/")
        assert reply.status_code == 200, reply.text
        return {one["name"]: one for one in reply.json()["items"]}


def test_files_of_a_job_are_kept_listed_and_fetched(stack, tmp_path):
    job = stack.submit(script=SCRIPT)["id"]
    assert stack.wait_for(job)["state"] == "succeeded"
    deadline = time.monotonic() + 60
    while len([one for one in _files(stack, job).values() if one["state"] == "whole"]) < 2:
        assert time.monotonic() < deadline, _files(stack, job)
        time.sleep(0.1)
    found = _files(stack, job)
    assert found["model/last.txt"]["sha256"] == hashlib.sha256(WEIGHTS).hexdigest()
    assert (found["secrets"]["state"], found["secrets"]["size"]) == ("refused", 0)
    number = found["model/last.txt"]["id"]
    with stack.api() as api:
        rest = api.get(f"/jobs/{job}/outputs/{number}/", params={"offset": len(WEIGHTS) - 8})
        assert rest.content == WEIGHTS[-8:]
        assert "attachment" in rest.headers["Content-Disposition"]
        gone = api.get(f"/jobs/{job}/outputs/{found['secrets']['id']}/")
        assert (gone.status_code, gone.json()["code"]) == (409, "output_missing")
    with stack.api("carol") as stranger:
        assert stranger.get(f"/jobs/{job}/outputs/{number}/").status_code == 404
    done = subprocess.run(
        [sys.executable, "-m", "portal.cli", "outputs", str(job), "--download", str(tmp_path)],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TRAINYARD_SERVER": stack.address,
            "TRAINYARD_TOKEN": stack.api_tokens["alice"],
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model/last.txt").read_bytes() == WEIGHTS
    assert (tmp_path / "loss.csv").read_text() == "0.5"
    assert "not there: secrets: it is a link" in done.stdout

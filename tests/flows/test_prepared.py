"""What `manage.py prepare` leaves: closed to everybody but what everybody is sent."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from portal.embedded.places import ROOT
from portal.embedded.programs import python
from tests import laid


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_proxy_of_another_user_reads_static_files_and_nothing_else(tmp_path, monkeypatch):
    """Also where a start of before this left the folders closed, and compressed files too."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    state = tmp_path / "state"
    laid.lay_tables(state)
    for place, _, names in os.walk(state / "static"):
        Path(place).chmod(0o700)
        for name in names:
            (Path(place) / name).chmod(0o600)
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.embedded",
        "TRAINYARD_STATE_DIR": str(state),
        "TRAINYARD_RUN_DIR": str(state),
    }
    subprocess.run(python("manage.py", "prepare"), cwd=ROOT, env=environment, check=True)

    static = [state / "static", *(state / "static").rglob("*")]
    assert {mode_of(path) for path in static if path.is_dir()} == {0o755}
    assert {mode_of(path) for path in static if path.is_file()} == {0o644}
    assert {".gz", ".css", ".js"} <= {path.suffix for path in static}
    assert mode_of(state / "trainyard.sqlite3") == 0o600

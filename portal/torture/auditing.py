"""Seal what the run recorded and read the whole chain; one JSON object, for the history (I20)."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict

_PATIENCE_S = 30.0


def sealed_and_read() -> dict[str, int | str]:
    """What `verify_audit` says once nothing waits for a seal any more, or patience is over."""
    from accounts.services.sealing import seal_audit, verify_audit

    deadline = time.monotonic() + _PATIENCE_S
    while True:
        seal_audit()
        report = verify_audit()
        if not report.unsealed or report.broken or time.monotonic() > deadline:
            return asdict(report)
        time.sleep(0.5)


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.embedded")
    django.setup()
    sys.stdout.write(json.dumps(sealed_and_read()))

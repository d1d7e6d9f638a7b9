"""How the server itself is: each part with a colour, a sentence and what to do."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from portal.beats import read_runs
from portal.celery import EVERY_S
from portal.fallen import read_fallen
from portal.pages.access import page, viewer_of
from portal.pages.ops.checks import Disk, every_check
from portal.pages.ops.regular import Tone, by_trouble, regular_tasks
from scheduler.selectors.machines.wellbeing import wellbeing


@page("GET")
def health(request: HttpRequest) -> HttpResponseBase:
    """For operators; brings itself up to date."""
    now = timezone.now()
    seen = wellbeing(viewer_of(request), now=now)
    runs = read_runs()
    tasks = list(regular_tasks(EVERY_S, runs, now))
    usage = shutil.disk_usage(settings.STATE_DIR)
    checks = every_check(
        seen,
        runs=runs,
        tasks=tasks,
        disk=Disk(usage.total - usage.free, usage.total),
        backed_up_at=_backed_up_at(),
        has_stamp=bool(settings.BACKUP_STAMP),
        fallen=read_fallen(Path(settings.STATE_DIR)),
        now=now,
    )
    context = {
        "checks": checks,
        "tasks": by_trouble(tasks),
        "bad": sum(check.tone == Tone.BAD for check in checks),
        "look": sum(check.tone == Tone.LOOK for check in checks),
        "unchecked": sum(check.tone == Tone.UNKNOWN for check in checks),
        "now": now,
    }
    part = "#live" if request.GET.get("part") == "live" else ""
    return render(request, f"ops/health.html{part}", context)


def _backed_up_at() -> datetime | None:
    if not settings.BACKUP_STAMP:
        return None
    try:
        return datetime.fromtimestamp(Path(settings.BACKUP_STAMP).stat().st_mtime, UTC)
    except OSError:
        return None

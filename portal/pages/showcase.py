"""What the style guide shows: made-up values, so that each part can be seen without a cluster."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from django import forms
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.models import Project, Team, User
from portal.pages.cluster.samples import cluster_parts
from portal.pages.logs.course import Shown, shown_course
from portal.pages.sets.grid import grid_picture
from portal.reports.charts import VALUES_AXIS, Chart, Slowed, TableRow
from portal.reports.gpus.ranks import Ranks, ranks_of
from portal.reports.log_rows import log_rows
from portal.reports.windows import TIME_AXIS
from portal.templatetags.states import LOOKS
from portal.terminal import render_lines
from scheduler.models import Job, Session
from scheduler.selectors.printed.course import Course, Point
from scheduler.selectors.printed.progress import Progress
from scheduler.selectors.sessions import SessionCard
from scheduler.selectors.telemetry import DeviceSeries
from scheduler.states import JobState

# Since then what is shown has run.
_AGO = timedelta(minutes=42, seconds=3)
_LOG = b"""\x1b[1mepoch 1/10\x1b[0m loss \x1b[33m2.301\x1b[0m accuracy \x1b[32m0.113\x1b[0m
\x1b[31;1mgradient norm 12.4\x1b[0m, clipped to 1.0
  0%|   |\r 50%|## |\r100%|###| 45/45 batches
\x1b[44m on blue \x1b[0m \x1b[7m inverse \x1b[0m \x1b[38;5;208mof 256\x1b[0m
saved \x1b]8;;https://tracker.example/runs/1\x1b\\the figures\x1b]8;;\x1b\\
<b>markup is text</b>
"""


class SampleForm(forms.Form):
    """Refused on purpose, so that errors are seen."""

    name = forms.CharField(help_text="Lower case, digits and dashes.")
    nodes = forms.IntegerField(required=False, initial=2)
    pool = forms.ChoiceField(choices=[("default", "default")])
    script = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)
    keep = forms.BooleanField(label="Keep checkpoints", required=False)
    tier = forms.ChoiceField(widget=forms.RadioSelect, choices=[("n", "normal"), ("u", "urgent")])


def showcase() -> dict[str, object]:
    """The context of styleguide.html."""
    now = timezone.now()
    minute = now.replace(second=0, microsecond=0)
    moment = minute - _AGO
    return {
        **_pictures(minute),
        "state_words": list(LOOKS),
        "cost": Decimal("1957.755"),
        "moment": moment,
        "pairs": [("Node", "n011"), ("GPUs", "8 × H100 80GB"), ("Driver", "570.133.20")],
        "form": SampleForm({"pool": "default", "nodes": 2}),
        "problems": ["per: choose 50, 100 or 200; these are 50."],
        "unknown_words": ["colour"],
        "slowed": [Slowed("n011 GPU 3", False, 34.0, 0.0), Slowed("n011 GPU 5", True, 0.0, 62.0)],
        "session_card": _session(moment),
        "now": now,
        "themes": ["light", "dark"],
        "command_line": "trainyard submit --project vision/digits --time 2h -- python train.py",
    }


@lru_cache(maxsize=1)
def _pictures(minute: datetime) -> dict[str, object]:
    """What is drawn; as nothing of it is anybody's, once a minute for all."""
    moment = minute - _AGO
    return {
        "log_rows": _log_rows(),
        "chart": _chart(moment),
        "ranks": _ranks(moment),
        "course": _course(moment),
        "grid": grid_picture([state for state in JobState for _ in range(9)]),
        "cluster": cluster_parts(minute),
    }


def _session(moment: datetime) -> SessionCard:
    """A card of a session that idles; never stored."""
    owner = User(pk=0, username="mara", display_name="Mara")
    project = Project(pk=0, slug="digits", team=Team(pk=0, slug="vision"))
    job = Job(
        pk=0, name="look-around", owner=owner, project=project, state=JobState.RUNNING,
        nodes=1, gpus_per_node=1, cpus=4, memory_mib=16384,
    )  # fmt: skip
    return SessionCard(
        session=Session(job=job, app="jupyter", idle_stop_s=3600),
        state=job.state,
        attempt_id=None,
        node="n011",
        started_at=moment,
        ends_at=moment + timedelta(hours=6),
        idle_since=moment,
        idle_stop_at=moment + timedelta(hours=1),
        idle_percent=70,
        level="soon",
        gpu_percent=4.0,
        extend_to="7h",
        actions=frozenset({"connect", "keep", "cancel"}),
    )


def _ranks(moment: datetime) -> Ranks | None:
    """Two nodes, on which one GPU lags."""
    at = [moment + timedelta(minutes=n) for n in range(24)]
    series = [
        DeviceSeries(f"made-up-{n}", n % 8, f"n01{1 + n // 8}", n, "", 0, True, at,
                     [(62.0 if n == 11 else 96.0) - 9 * (k % 7 == 3) for k in range(24)])
        for n in range(16)
    ]  # fmt: skip
    return ranks_of(series)


def _course(moment: datetime) -> Shown:
    """It stood still for a while, and goes on."""
    at = [moment + timedelta(minutes=2 * n) for n in range(20) if not 6 < n < 12]
    points = [Point(one, 900 * max(min(n, 6), n - 1)) for n, one in enumerate(at)]
    ends_at = at[-1] + timedelta(minutes=25)
    progress = Progress("step", points[-1].done, 24_000, at[-1], ends_at)
    return shown_course(Course(moment, progress, tuple(points)), now=timezone.now())


def _log_rows() -> SafeString:
    gap = "n011 was not heard 25 Nov 12:01:10 to 12:04:02; 0 bytes were lost"
    return log_rows(render_lines(_LOG, 1).lines, gaps={5: gap})


def _chart(moment: datetime) -> Chart:
    stamps = [(moment + timedelta(seconds=5 * n)).isoformat() for n in range(100)]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"rank {rank}",
            "uid": str(rank),
            "x": stamps,
            "y": [round(80 + 15 * math.sin(n / 9 + rank), 1) for n in range(100)],
            "line": {"width": 1.5},
        }
        for rank in range(3)
    ]
    layout = {
        "xaxis": TIME_AXIS,
        "yaxis": {**VALUES_AXIS, "range": [0, 100]},
        "showlegend": True,
    }
    rows = tuple(TableRow(f"rank {n}", True, 65.0, 80.0, 95.0, 77.0, 100) for n in range(3))
    figure = {"data": traces, "layout": layout}
    return Chart("gpu_percent", "GPU use", "%", figure, "Made up, between 65 and 95 %.", rows)

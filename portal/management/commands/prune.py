"""Delete what was kept for long enough, or say what would go; set how long a project keeps."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from accounts.errors import DomainError
from accounts.permissions import projects_visible_to
from accounts.selectors import person_named
from scheduler.services.kept.pruning import prune_kept, set_retention, would_prune
from scheduler.services.kept.reports import due_report_files, prune_report_files


class Command(BaseCommand):
    """What the task does every hour, now. With `--project` it sets days instead of deleting."""

    help = "Delete what jobs left that are over for longer than their projects keep it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Nothing: delete; `--project`: set days; `--dry-run` with either: only say."""
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="delete and set nothing, say what would go (with --project: with these days)",
        )
        parser.add_argument("--project", default="", help="team/project to set days for")
        parser.add_argument("--by", default="", help="user name of a lead of the team")
        parser.add_argument("--log-days", type=int, help="left out: the default of the settings")
        parser.add_argument("--file-days", type=int, help="left out: the default of the settings")
        parser.add_argument("--sample-days", type=int, help="of GPUs; left out: as with the others")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints one JSON line; fails with what is wrong."""
        is_dry = bool(options["dry_run"])
        said = self._of_project(options, is_dry) if options["project"] else self._of_all(is_dry)
        self.stdout.write(json.dumps(said))

    def _of_all(self, is_dry: bool) -> dict[str, Any]:
        now = timezone.now()
        went = asdict(prune_kept(now=now, dry_run=is_dry))
        reports = due_report_files(now=now).count() if is_dry else prune_report_files(now=now)
        return {"dry_run": is_dry, **went, "reports": reports}

    def _of_project(self, options: dict[str, Any], is_dry: bool) -> dict[str, Any]:
        person = person_named(options["by"])
        if person is None:
            raise CommandError(f"--by: there is nobody called {options['by']!r}.")
        mine = projects_visible_to(person).select_related("team")
        project = next((one for one in mine if one.path == options["project"]), None)
        if project is None:
            raise CommandError(f"--project: there is no project {options['project']!r}.")
        days = {name: options[name] for name in ("log_days", "file_days", "sample_days")}
        said = {"project": project.path, **days}
        try:
            if is_dry:
                would = would_prune(actor=person, project=project, **days, now=timezone.now())
                return {"dry_run": True, **said, **asdict(would)}
            set_retention(actor=person, project=project, **days)
        except DomainError as refused:
            raise CommandError(refused.detail) from None
        return said

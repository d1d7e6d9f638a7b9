"""Why a job waits or how it ended: the page's answer, on a terminal."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler.loop.answering import ask
from scheduler.loop.supposing.in_time import finish_of_waiting
from scheduler.models import Job
from scheduler.selectors.jobs import end_sentence_of, wait_sentence_of
from scheduler.services.holding.arrays import needed_by
from scheduler.states import FINAL_JOB_STATES, WAITING_JOB_STATES, Tier, moment_words


class Command(BaseCommand):
    """Print state, sentence and facts of one job; sees every job, as who runs it sees the rows."""

    help = "Explain why a job waits or how it ended."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The job's number."""
        parser.add_argument("job", type=int)
        parser.add_argument(
            "--options", action="store_true", help="also all that blocks it, and what would help"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Fails if there is no such job."""
        job = (
            Job.objects.select_related("pool", "queue", "project__team", "owner")
            .filter(pk=options["job"])
            .first()
        )
        if job is None:
            raise CommandError(f"There is no job {options['job']}.")
        self.stdout.write(f"Job {job.pk} {job.name}: {job.state}")
        self.stdout.write(f"  project  {job.project.path}, by {job.owner.get_username()}")
        shape = f"{job.nodes} x {job.gpus_per_node} {job.gpu_model or 'GPUs'}"
        self.stdout.write(f"  asks for {shape} in pool {job.pool.name}, tier {_tier(job.tier)}")
        if job.state in WAITING_JOB_STATES:
            self.stdout.write(f"  {wait_sentence_of(job)}")
            self._facts(job.wait_facts)
            for one in needed_by([job]).get(job.pk, ()):
                self.stdout.write(f"    array {one.job_set}: {one.so_far}")
            if finish := finish_of_waiting(job, now=timezone.now()):
                self.stdout.write(
                    f"  finished by {moment_words(finish.finish_by)}: {finish.sentence}"
                )
            if job.wait_checked_at:
                self.stdout.write(f"  as of {moment_words(job.wait_checked_at)}")
            if options["options"]:
                self._options(job)
        elif job.state in FINAL_JOB_STATES:
            self.stdout.write(f"  {end_sentence_of(job)}")
            self._facts(job.end_facts)

    def _options(self, job: Job) -> None:
        """Checks, holders and options, by deciding on the cluster as it is now."""
        answer = ask(job, now=timezone.now())
        if answer is None:
            self.stdout.write("  it does not wait for the scheduler")
            return
        for check in answer.blocking.checks:
            mark = "ok " if check.is_ok else "NOT"
            self.stdout.write(f"  {mark} {check.reason}: needs {check.need}; {check.have}")
        for holder in answer.blocking.holders:
            until = _clock(holder.until_s) if holder.until_s else "nobody knows when"
            self.stdout.write(f"  job {holder.job} holds {holder.gpus} GPUs until {until}")
        for option in answer.answer.options:
            when = "now" if option.starts_now else f"about {_clock(int(option.start_s))}"
            self.stdout.write(f"  {option.words}: {when}")

    def _facts(self, facts: dict[str, Any]) -> None:
        for name, value in sorted(facts.items()):
            if name.endswith("_at") and isinstance(value, int):
                value = _clock(value)
            self.stdout.write(f"    {name} = {'unknown' if value is None else value}")


def _clock(epoch_s: int) -> str:
    return moment_words(datetime.fromtimestamp(epoch_s, UTC))


def _tier(number: int) -> str:
    try:
        return Tier(number).name.lower()
    except ValueError:
        return str(number)

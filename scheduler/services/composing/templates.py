"""Templates of jobs: made, versioned, forked and retired by who leads the team, used by members."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from accounts.models import Team, User
from accounts.permissions import can, managed_for
from accounts.services.audit import Subject, record
from scheduler.models import Job, JobSet, JobTemplate, TemplateUse, TemplateVersion
from scheduler.selectors.composing.templates import version_of_job
from scheduler.services.composing.allowing import refuse_outside
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.jobs import NOTHING_TYPED, Submitted, submit_job
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.partial import completed, read_partial
from scheduler.spec.rules import LOCKED, Rules, read_rules, rule_problems, written_rules
from scheduler.spec.text import MAX_TEXT, clean_name, clean_text
from scheduler.states import is_secret_name

MOST_OF_TEAM = 200
MOST_VERSIONS = 500
_MAX_NOTE = 255


@transaction.atomic
def create_template(
    *,
    actor: User,
    team: Team,
    name: str,
    document: Mapping[str, Any],
    rules: Mapping[str, Any],
    description: str = "",
    is_public: bool = False,
    forked_from: TemplateVersion | None = None,
    now: datetime | None = None,
) -> TemplateVersion:
    """Version 1 of a new template; raises Forbidden, Invalid, or SpecInvalid for what it says.

    A fork has the document and the rules of `forked_from`."""
    _require(actor, team)
    name, description = (
        _worded(name, clean_name, "name"),
        _worded(description, _text, "description"),
    )
    if JobTemplate.objects.filter(team=team).count() >= MOST_OF_TEAM:
        raise Invalid(f"The team has {MOST_OF_TEAM} templates already; retire some.", field="team")
    # What is forked was checked when it was written, and goes on just as it is kept.
    checked = (dict(document), dict(rules)) if forked_from else check_template(document, rules)
    now = now or timezone.now()
    template = JobTemplate(
        team=team,
        name=name,
        description=description,
        is_public=is_public,
        forked_from=forked_from,
        created_by=actor,
        created_at=now,
    )
    _save_with_slug(template)
    version = _write(actor, template, 1, checked, "", now)
    after = {"name": name, "is_public": is_public, "version": 1}
    if forked_from is not None:
        after["forked_from"] = forked_from.reference
    _record(actor, "create", template, after)
    return version


@transaction.atomic
def add_version(
    *,
    actor: User,
    template: JobTemplate,
    document: Mapping[str, Any],
    rules: Mapping[str, Any],
    note: str = "",
    now: datetime | None = None,
) -> TemplateVersion:
    """The next version; those before stay as they are. Raises Forbidden, Conflict, SpecInvalid."""
    template = _locked(actor, template)
    if template.latest >= MOST_VERSIONS:
        raise Conflict(f"It has {MOST_VERSIONS} versions; fork it to go on.")
    note = _worded(note, _text, "note")[:_MAX_NOTE]
    checked = check_template(document, rules)
    number = template.latest + 1
    version = _write(actor, template, number, checked, note, now or timezone.now())
    JobTemplate.objects.filter(pk=template.pk).update(latest=number)
    after = {"version": number, "rules": written_rules(checked[1])}
    _record(actor, "version", template, after, reason=note)
    return version


@transaction.atomic
def retire_template(
    *, actor: User, template: JobTemplate, now: datetime | None = None
) -> JobTemplate:
    """No more jobs from it; what was made from it stays. Raises Forbidden, Conflict."""
    template = _locked(actor, template)
    template.retired_at = now or timezone.now()
    template.save(update_fields=["retired_at"])
    _record(actor, "retire", template, {"retired": True})
    return template


def fork_template(
    *, actor: User, version: TemplateVersion, team: Team, name: str, now: datetime | None = None
) -> TemplateVersion:
    """A template of its own with what a version says, for a team that the actor leads."""
    return create_template(
        actor=actor,
        team=team,
        name=name,
        document=version.document,
        rules=version.rules,
        description=version.template.description,
        forked_from=version,
        now=now,
    )


@transaction.atomic
def submit_from_template(
    *,
    actor: User,
    version: TemplateVersion,
    spec: JobSpec,
    idempotency_key: str = "",
    cloned_from: Job | None = None,
    rerun_of: JobSet | None = None,
    now: datetime | None = None,
    typed: Mapping[str, str] = NOTHING_TYPED,
) -> Submitted:
    """As `submit_job`, within the template's rules; raises SpecInvalid for what they forbid."""
    refuse_outside(version, spec, cloned_from)
    now = now or timezone.now()
    submitted = submit_job(
        actor=actor,
        spec=spec,
        idempotency_key=idempotency_key,
        cloned_from=cloned_from,
        rerun_of=rerun_of,
        now=now,
        typed=typed,
    )
    if submitted.is_new:
        TemplateUse.objects.create(job=submitted.job, version=version, used_at=now)
    return submitted


def submit_again(
    *,
    actor: User,
    job: Job,
    spec: JobSpec,
    idempotency_key: str = "",
    rerun_of: JobSet | None = None,
    now: datetime | None = None,
) -> Submitted:
    """A job from another one, or an array from a task of `rerun_of`, within the rules of its
    template for as long as that is there for the actor and not retired; raises SpecInvalid for what
    they forbid."""
    fields: dict[str, Any] = {"spec": spec, "idempotency_key": idempotency_key, "now": now}
    fields |= {"rerun_of": rerun_of, "cloned_from": None if rerun_of else job}
    version = version_of_job(actor, job)
    if version is None or version.template.retired_at is not None:
        return submit_job(actor=actor, **fields)
    return submit_from_template(actor=actor, version=version, **fields)


def check_template(
    document: Mapping[str, Any], rules: Mapping[str, Any]
) -> tuple[dict[str, Any], Rules]:
    """What a template would keep; raises SpecInvalid with everything that is wrong."""
    found = read_partial(document)
    problems = list(found.problems)
    for name in found.document.get("env") or {}:
        if is_secret_name(name):
            words = f"{name[:64]} looks like a secret; keep it under Secrets and name it there"
            problems.append(SpecProblem("env", words))
    try:
        read = read_rules(rules)
    except SpecInvalid as refused:
        problems += refused.problems
    if not problems:
        problems = _contradictions(found.document, read)
    if problems:
        raise SpecInvalid(problems)
    return found.document, read


def _contradictions(document: dict[str, Any], rules: Rules) -> list[SpecProblem]:
    """A template that nobody could use, or that says nothing."""
    if not document and not rules:
        return [SpecProblem("document", "says nothing; name at least one field, or a rule")]
    if LOCKED in rules.get("project", {}) and "project" not in document:
        return [SpecProblem("rules.project", "locks no project; name the project above")]
    held = {name: rule for name, rule in rules.items() if name in document}
    spec = JobSpec.model_validate(completed(document))
    return [
        SpecProblem(f"rules.{one.field}", "refuses what the template itself says: its own rules")
        for one in rule_problems(held, document, spec)
    ]


def subject_of(template: JobTemplate) -> Subject:
    """How the audit names it."""
    return Subject("template", template.slug, template.name, template.team_id)


def _record(
    actor: User, verb: str, template: JobTemplate, after: Mapping[str, Any], *, reason: str = ""
) -> None:
    giver = managed_for(actor, template.team)
    about = subject_of(template)
    record(actor, f"template.{verb}", about, after=after, reason=reason, on_behalf_of=giver)


def _write(
    actor: User,
    template: JobTemplate,
    number: int,
    checked: tuple[dict[str, Any], Rules],
    note: str,
    now: datetime,
) -> TemplateVersion:
    return TemplateVersion.objects.create(
        template=template,
        number=number,
        document=checked[0],
        rules=checked[1],
        note=note,
        written_by=actor,
        written_at=now,
    )


def _save_with_slug(template: JobTemplate) -> None:
    """The team's and its own name; a number behind it where there is such a one already."""
    stem = f"{template.team.slug}-{slugify(template.name) or 'template'}"[:80].strip("-")
    for number in range(1, 100):
        template.slug = stem if number == 1 else f"{stem}-{number}"
        try:
            with transaction.atomic():
                template.save(force_insert=True)
        except IntegrityError:
            continue
        return
    raise Invalid("There are too many templates of this name; choose another.", field="name")


def _require(actor: User, team: Team) -> None:
    if not can(actor, "view_team", team):
        raise NotFound("There is no such team for you.")
    if not can(actor, "manage_team", team):
        raise Forbidden("Only who leads the team writes its templates. Ask a lead.")


def _locked(actor: User, template: JobTemplate) -> JobTemplate:
    template = (
        JobTemplate.objects.select_for_update(of=("self",))
        .select_related("team")
        .get(pk=template.pk)
    )
    if not can(actor, "manage_team", template.team):
        raise Forbidden("Only who leads the team changes its templates. Fork it for yours.")
    if template.retired_at is not None:
        raise Conflict("The template is retired; fork it to go on.")
    return template


def _text(value: str) -> str:
    return clean_text(value.strip(), MAX_TEXT)


def _worded(value: str, read: Any, field: str) -> str:
    try:
        return str(read(value))
    except ValueError as error:
        raise Invalid(f"The {field} {error}.", field=field) from None

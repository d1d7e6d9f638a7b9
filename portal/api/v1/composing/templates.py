"""Templates of jobs and one's own drafts over REST."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import get_visible_team
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import JobTemplate, TemplateVersion
from scheduler.selectors.composing.drafts import drafts_of, get_draft
from scheduler.selectors.composing.templates import (
    get_version,
    get_visible_template,
    versions_of,
    visible_templates,
)
from scheduler.services.composing.drafts import drop_draft
from scheduler.services.composing.templates import (
    add_version,
    create_template,
    fork_template,
    retire_template,
)
from scheduler.spec.rules import written_rules


class VersionShape(serializers.Serializer[Any]):
    """What a template says once. `rules`: field to locked, a range or choices."""

    number = serializers.IntegerField()
    spec = serializers.DictField()
    rules = serializers.DictField()
    note = serializers.CharField(allow_blank=True)
    written_by = serializers.CharField()
    written_at = serializers.DateTimeField()


class TemplateShape(serializers.Serializer[Any]):
    """A template; `slug@latest` starts a job from its newest version."""

    slug = serializers.CharField()
    name = serializers.CharField()
    team = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    is_public = serializers.BooleanField()
    latest = serializers.IntegerField()
    retired_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_by_me_at = serializers.DateTimeField(allow_null=True)


class TemplateDetail(TemplateShape, Part):
    """With its versions, the newest first; `next_cursor` leads to the older ones."""

    versions = VersionShape(many=True)


class Templates(Part):
    """Those of your teams and the public ones."""

    items = TemplateShape(many=True)


class NewVersionBody(serializers.Serializer[Any]):
    """A version: fields of a spec, and rules such as `{"gpus_per_node": "1..8"}`."""

    spec = serializers.DictField(required=False)
    rules = serializers.DictField(required=False)
    note = serializers.CharField(required=False, allow_blank=True, max_length=255)


class TemplateBody(NewVersionBody):
    """A new template of a team that you lead."""

    team = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=128)
    description = serializers.CharField(required=False, allow_blank=True, max_length=4096)
    is_public = serializers.BooleanField(required=False)
    note = None  # type: ignore[assignment]


class ForkBody(serializers.Serializer[Any]):
    """For which team, and what to call it there."""

    team = serializers.CharField(max_length=63)
    name = serializers.CharField(required=False, max_length=128)


class DraftShape(serializers.Serializer[Any]):
    """A job that is still being written on the page."""

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField(allow_blank=True)
    saved_at = serializers.DateTimeField()


class Drafts(Part):
    """Your own."""

    items = DraftShape(many=True)


def _show(request: Request, slug: str) -> dict[str, Any]:
    viewer = viewer_of(request)
    template = get_visible_template(viewer, slug)
    part = part_of(
        request,
        versions_of(viewer, template),
        lambda found: [_show_version(one) for one in found],
        path=reverse("api:template", args=[slug]),
    )
    shown = {"versions": part["items"], "next_cursor": part["next_cursor"]}
    return dict(TemplateDetail({**_fields(template), **shown}).data)


def _fields(template: JobTemplate) -> dict[str, Any]:
    names = set(TemplateShape().fields) - {"team"}
    return {name: getattr(template, name) for name in names} | {"team": template.team.slug}


def _show_version(version: TemplateVersion) -> dict[str, Any]:
    return {
        "number": version.number,
        "spec": version.document,
        "rules": written_rules(version.rules),
        "note": version.note,
        "written_by": version.written_by.username,
        "written_at": version.written_at,
    }


class TemplateList(ApiView):
    """`/templates/`."""

    @operation(
        "templates_list",
        "Templates you may use",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Templates,
    )
    def get(self, request: Request) -> Response:
        rows = visible_templates(viewer_of(request))
        part = part_of(request, rows, lambda found: [_fields(row) for row in found])
        return Response(Templates(part).data)

    @operation(
        "templates_create",
        "Make a template for a team you lead",
        scope="jobs:write",
        body=TemplateBody,
        reply=TemplateDetail,
        status=201,
    )
    def post(self, request: Request) -> Response:
        """422 names what is wrong with the spec's fields, and rules as `rules.<field>`."""
        actor, sent = viewer_of(request), body_of(request, TemplateBody)
        team = get_visible_team(actor, sent.pop("team"))
        spec, rules = sent.pop("spec", {}), sent.pop("rules", {})
        made = create_template(actor=actor, team=team, document=spec, rules=rules, **sent)
        return Response(_show(request, made.template.slug), status=201)


class TemplateBySlug(ApiView):
    """`/templates/<slug>/`."""

    @operation(
        "templates_read",
        "One template, with its versions",
        scope="jobs:read",
        query=PART_QUERY,
        reply=TemplateDetail,
    )
    def get(self, request: Request, slug: str) -> Response:
        return Response(_show(request, slug))


class TemplateVersions(ApiView):
    """`/templates/<slug>/versions/`."""

    @operation(
        "templates_version",
        "Write the next version; those before never change",
        scope="jobs:write",
        body=NewVersionBody,
        reply=TemplateDetail,
        status=201,
    )
    def post(self, request: Request, slug: str) -> Response:
        """Jobs that are made without naming a version take the newest."""
        actor = viewer_of(request)
        template = get_visible_template(actor, slug)
        sent = body_of(request, NewVersionBody)
        spec, rules = sent.pop("spec", {}), sent.pop("rules", {})
        add_version(actor=actor, template=template, document=spec, rules=rules, **sent)
        return Response(_show(request, slug), status=201)


class TemplateRetire(ApiView):
    """`/templates/<slug>/retire/`."""

    @operation(
        "templates_retire", "Start no more jobs from it", scope="jobs:write", reply=TemplateDetail
    )
    def post(self, request: Request, slug: str) -> Response:
        """What was made from it stays."""
        actor = viewer_of(request)
        template = get_visible_template(actor, slug)
        body_of(request)
        retire_template(actor=actor, template=template)
        return Response(_show(request, slug))


class TemplateFork(ApiView):
    """`/templates/<slug>/fork/`."""

    @operation(
        "templates_fork",
        "Make a template of your own team from it",
        scope="jobs:write",
        body=ForkBody,
        reply=TemplateDetail,
        status=201,
    )
    def post(self, request: Request, slug: str) -> Response:
        """With the newest version, as version 1."""
        actor = viewer_of(request)
        version = get_version(actor, slug)
        sent = body_of(request, ForkBody)
        team = get_visible_team(actor, sent["team"])
        name = sent.get("name") or version.template.name
        made = fork_template(actor=actor, version=version, team=team, name=name)
        return Response(_show(request, made.template.slug), status=201)


class DraftList(ApiView):
    """`/drafts/`."""

    @operation(
        "drafts_list",
        "Your drafts, the newest first",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Drafts,
    )
    def get(self, request: Request) -> Response:
        return _shown_drafts(request)


class DraftByNumber(ApiView):
    """`/drafts/<id>/`."""

    @operation("drafts_delete", "Forget a draft", scope="jobs:write", reply=Drafts)
    def delete(self, request: Request, pk: int) -> Response:
        """Answers with those that are left."""
        actor = viewer_of(request)
        drop_draft(actor=actor, key=get_draft(actor, pk).key)
        return _shown_drafts(request)


def _shown_drafts(request: Request) -> Response:
    rows = drafts_of(viewer_of(request))
    return Response(Drafts(part_of(request, rows, list, path=reverse("api:drafts"))).data)

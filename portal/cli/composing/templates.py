"""Templates: jobs of a team that are ready to start."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli import spec
from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List templates to start jobs from; show, make, fork or retire one.",
    invoke_without_command=True,
)
Slug = Annotated[str, typer.Argument(help="The template, such as vision-ddp.")]
File = Annotated[str, typer.Argument(help="YAML or JSON with spec and rules; - is stdin.")]
Team = Annotated[str, typer.Option(help="The team that gets it; you lead it.")]
_HEADS = ("TEMPLATE", "TEAM", "VERSION", "LAST USED", "NAME")


@app.callback()
def list_templates(context: typer.Context, as_json: AsJson = False) -> None:
    """List templates to start jobs from; show, make, fork or retire one."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/templates/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["slug"],
            one["team"],
            one["latest"],
            ago(one["last_used_at"]) if one["last_used_at"] else "never",
            one["name"],
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "No team of yours has a template yet.")


@app.command()
def show(slug: Slug, as_json: AsJson = False) -> None:
    """What its newest version says, and which fields a job may change."""
    import yaml

    with Api(load_config()) as api:
        found = api.get(f"/templates/{slug}/")
    if as_json:
        print_json(found)
        return
    newest = found["versions"][0]
    text = {"spec": newest["spec"], "rules": newest["rules"]}
    print_line(f"# {found['name']} of {found['team']}, version {newest['number']}")
    for line in yaml.safe_dump(text, sort_keys=False, allow_unicode=True).splitlines():
        print_line(line)


@app.command()
def create(
    file: File,
    name: Annotated[str, typer.Option(help="What to call it.")],
    team: Team,
    public: Annotated[bool, typer.Option("--public", help="Everybody may use it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make one from a file with `spec` and `rules`, as `templates show` prints it."""
    more = {"name": name, "team": team, "is_public": public}
    _kept("/templates/", {**_read(file), **more}, as_json)


@app.command()
def version(
    slug: Slug,
    file: File,
    note: Annotated[str, typer.Option(help="What is new.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write its next version; those before never change."""
    _kept(f"/templates/{slug}/versions/", {**_read(file), "note": note}, as_json)


@app.command()
def fork(
    slug: Slug,
    team: Team,
    name: Annotated[str, typer.Option(help="What to call it there.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make one of your own team from its newest version."""
    _kept(f"/templates/{slug}/fork/", {"team": team} | ({"name": name} if name else {}), as_json)


@app.command()
def retire(slug: Slug, as_json: AsJson = False) -> None:
    """Start no more jobs from it."""
    with Api(load_config()) as api:
        found = api.post(f"/templates/{slug}/retire/")
    if as_json:
        print_json(found)
        return
    print_line(f"{slug} is retired.")


def _kept(path: str, body: dict[str, Any], as_json: bool) -> None:
    with Api(load_config()) as api:
        found = api.post(path, body)
    if as_json:
        print_json(found)
        return
    print_line(f"{found['slug']}@{found['latest']} is kept.")


def _read(file: str) -> dict[str, Any]:
    document = spec.read_job_file(file, spec.read_file(file))
    if alien := document.keys() - {"spec", "rules"}:
        raise Failure(
            f"{file} is no template: {', '.join(sorted(map(str, alien)))}.",
            remedy="It has two fields: spec, a job, and rules, such as gpus_per_node: 1..8.",
        )
    return document

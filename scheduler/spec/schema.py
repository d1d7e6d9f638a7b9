"""JobSpec: what a person asks for. Per-node figures are per node; nothing is unlimited.

`parse_spec` turns a dictionary from any door into a checked, frozen JobSpec or raises SpecInvalid
with every problem. `JobSpec.document()` is the normalised form that is stored and shown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from scheduler.spec import text, units
from scheduler.spec.problems import SpecInvalid, SpecProblem
from scheduler.states import Tier

API_VERSION: Final = "trainyard/v1"
MAX_NODES = 512
MAX_GPUS_PER_NODE = 64
MAX_TIME_LIMIT_S = 60 * 86400
MAX_SCRIPT_CHARS = 128 * 1024
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT")
# Written by the server alone; named so that the refusal can say more than "unknown".
FORBIDDEN_FIELDS = frozenset(
    {"owner", "state", "fence", "team_id", "team", "id", "cost", "submitted_at", "owner_id"}
)
_DIGITS = re.compile(r"-?\d{1,18}", re.ASCII)
_SLUG_PATH = re.compile(r"[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_GIT_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@{}^~+-]{0,254}", re.ASCII)


def _whole(value: object) -> object:
    """Integers and their plain ASCII spelling; 1.5, 1_000, NaN, full-width digits are refused."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("must be a whole number")
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value.strip()):
            raise ValueError("must be a whole number, written with the digits 0-9")
        return int(value)
    return value


def _command(value: object) -> object:
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be split into arguments: {error}") from None
    return value


def _checked_command(value: tuple[str, ...]) -> tuple[str, ...]:
    if value and not value[0].strip():
        raise ValueError("must begin with the program to start")
    for argument in value:
        text.refuse_controls(argument, allowed="\n\r\t\x1b")
    if sum(len(argument.encode()) for argument in value) > text.MAX_COMMAND_BYTES:
        raise ValueError(f"is longer than {text.MAX_COMMAND_BYTES} bytes; put it into a script")
    return value


def _slug(value: str) -> str:
    if value and not _SLUG.fullmatch(value):
        raise ValueError("must be lower-case letters, digits and dashes")
    return value


def _project(value: str) -> str:
    if not _SLUG_PATH.fullmatch(value):
        raise ValueError("must be written team/project, such as vision/digits")
    return value


def _git_url(value: str) -> str:
    if not value:
        return value
    text.refuse_controls(value)
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        raise ValueError("is not a valid address") from None
    if parts.scheme not in ("https", "file"):
        raise ValueError("must begin with https://")
    if parts.username or parts.password:
        raise ValueError("must not carry a user name or password")
    if parts.scheme == "https" and not host:
        raise ValueError("must name a host")
    return value


def _git_ref(value: str) -> str:
    if value and (not _GIT_REF.fullmatch(value) or ".." in value):
        raise ValueError("is not a branch, tag or commit name")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Duration = Annotated[int, BeforeValidator(units.parse_duration)]
Size = Annotated[int, BeforeValidator(units.parse_size_mib)]
Path = Annotated[str, AfterValidator(text.clean_path)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=256 * 1024)


class CodeSpec(_Part):
    """Where the program comes from beside an inline script."""

    folder: Path = ""
    git_url: Annotated[str, Field(max_length=1024), AfterValidator(_git_url)] = ""
    git_ref: Annotated[str, Field(max_length=255), AfterValidator(_git_ref)] = ""

    @model_validator(mode="after")
    def _one_source(self) -> CodeSpec:
        if self.folder and self.git_url:
            raise ValueError("give either a folder or a git URL, not both")
        if self.git_ref and not self.git_url:
            raise ValueError("git_ref needs a git_url")
        return self


class StopSpec(_Part):
    """How the program is asked to stop before it is killed."""

    signal: Literal[STOP_SIGNALS] = "SIGTERM"  # type: ignore[valid-type]
    grace: Annotated[Duration, Field(ge=0, le=600)] = 30


class JobSpec(_Part):
    """The job as asked for; sizes in MiB and durations in seconds once parsed."""

    apiVersion: Literal["trainyard/v1"] = API_VERSION  # noqa: N815 - the document's own spelling
    kind: Literal["Job"] = "Job"
    name: Annotated[str, AfterValidator(text.clean_name)]
    description: Annotated[str, AfterValidator(text.clean_text)] = ""
    labels: dict[str, str] = Field(default_factory=dict, max_length=32)
    project: Annotated[str, AfterValidator(_project)]
    pool: Annotated[str, AfterValidator(_slug)] = ""
    tier: Literal["exploratory", "normal", "urgent", "production"] = "normal"
    nodes: Annotated[Whole, Field(ge=1, le=MAX_NODES)] = 1
    gpus_per_node: Annotated[Whole, Field(ge=1, le=MAX_GPUS_PER_NODE)] = 1
    gpu_model: Annotated[str, Field(max_length=96), AfterValidator(str.strip)] = ""
    cpus: Annotated[Whole, Field(ge=1, le=1024)] = 1
    memory: Annotated[Size, Field(ge=16, le=64 * 1024 * 1024)] = 2048
    time_limit: Annotated[Duration, Field(ge=1, le=MAX_TIME_LIMIT_S)] = 3600
    command: Annotated[
        tuple[str, ...],
        Field(max_length=1024),
        BeforeValidator(_command),
        AfterValidator(_checked_command),
    ] = ()
    script: Annotated[str, Field(max_length=MAX_SCRIPT_CHARS)] = ""
    code: CodeSpec = CodeSpec()
    processes: Literal["node", "gpu"] = "node"
    env: Annotated[dict[str, str], AfterValidator(text.clean_env)] = Field(default_factory=dict)
    working_dir: Path = ""
    retries: Annotated[Whole, Field(ge=0, le=20)] = 0
    checkpoint_dir: Path = ""
    stop: StopSpec = StopSpec()
    hold: bool = False

    @model_validator(mode="after")
    def _has_a_program(self) -> JobSpec:
        text.refuse_controls(self.script, allowed="\n\r\t\x0c\x1b")
        text.refuse_controls(self.gpu_model)
        if bool(self.command) == bool(self.script.strip()):
            raise ValueError("command|give either a command or a script")
        if self.script and (self.code.folder or self.code.git_url):
            raise ValueError("script|a script stands alone; use a command with a folder or git URL")
        for key, value in self.labels.items():
            if not _SLUG.fullmatch(key) or len(value) > 128:
                raise ValueError(f"labels|{key[:40]!r} is not a valid label")
            text.refuse_controls(value)
        return self

    @property
    def tier_number(self) -> int:
        """The tier as the number that orders the queue; higher is sooner."""
        return int(Tier[self.tier.upper()])

    @property
    def gpus(self) -> int:
        """Devices in all."""
        return self.nodes * self.gpus_per_node

    def document(self) -> dict[str, Any]:
        """The normalised spec as plain JSON values, what is stored, shown and cloned."""
        return self.model_dump(mode="json")

    def readable(self) -> dict[str, Any]:
        """As `document`, durations and sizes as people write them, defaults left out."""
        shown = self.model_dump(mode="json", exclude_defaults=True)
        shown = {"apiVersion": self.apiVersion, "kind": self.kind, **shown}
        shown["time_limit"] = units.format_duration(self.time_limit)
        shown["memory"] = units.format_size_mib(self.memory)
        if "stop" in shown and "grace" in shown["stop"]:
            shown["stop"]["grace"] = units.format_duration(self.stop.grace)
        return shown


def parse_spec(document: Mapping[str, Any]) -> JobSpec:
    """Check a document from any door; raises SpecInvalid with all its problems."""
    try:
        return JobSpec.model_validate(dict(document))
    except ValidationError as error:
        raise SpecInvalid([_problem(item) for item in error.errors(include_url=False)]) from None


def _problem(item: Any) -> SpecProblem:
    # An item of a list is named by its list: nobody counts arguments from zero.
    path = ".".join(part for part in item["loc"] if isinstance(part, str))
    kind, message = item["type"], str(item["msg"])
    context = item.get("ctx") or {}
    if kind == "extra_forbidden":
        name = path.rsplit(".", 1)[-1]
        if name in FORBIDDEN_FIELDS:
            words = "is set by Trainyard and must not be sent; remove it"
            return SpecProblem(path, words, "forbidden_field")
        words = "is not a field of a job; remove it or check the spelling"
        return SpecProblem(path, words, "unknown_field")
    if kind == "string_unicode":
        return SpecProblem(path, "holds a lone surrogate, which is no character; remove it")
    if kind == "missing":
        return SpecProblem(path, "is required")
    if kind == "value_error":
        message = str(context.get("error", message))
        field, _, rest = message.partition("|")
        if rest:
            return SpecProblem(field, rest)
        return SpecProblem(path or "job", message)
    if kind == "literal_error":
        return SpecProblem(path, f"must be one of {context.get('expected')}")
    if kind == "greater_than_equal":
        return SpecProblem(path, f"must be at least {context['ge']}")
    if kind == "less_than_equal":
        return SpecProblem(path, f"must be at most {context['le']}")
    return SpecProblem(path or "job", message[:1].lower() + message[1:])

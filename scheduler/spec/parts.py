"""The parts of a job spec that have fields of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from scheduler.spec import values
from scheduler.spec.problems import SpecInvalid, SpecProblem
from scheduler.spec.values import Duration, Path

MAX_NODES = 512
SESSION_APPS = ("shell", "jupyter", "vscode", "tensorboard", "command")
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT")
# Beside the first one.
MOST_OTHER_POOLS = 7
NODES_HELP = "write a number such as 4, or the fewest and the most such as 2..8"


class NodeCount(int):
    """How many nodes: the most it takes, as a plain number; `least` is the fewest it runs on.

    Written `4`, or `2..8` for a job that can run on fewer nodes than it would like.
    """

    least: int

    def __new__(cls, most: int, least: int | None = None) -> NodeCount:
        made = super().__new__(cls, most)
        made.least = most if least is None else least
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NodeCount):
            return (int(self), self.least) == (int(other), other.least)
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(int(self))

    def written(self) -> int | str:
        """As `read` takes it."""
        return int(self) if self.least == self else f"{self.least}..{int(self)}"

    @classmethod
    def read(cls, value: object) -> NodeCount:
        """Raises ValueError with the remedy."""
        if isinstance(value, NodeCount):
            return value
        least: object = None
        if isinstance(value, str) and ".." in value:
            least, _, value = value.partition("..")
        try:
            most = values.whole(value)
            fewest = most if least is None else values.whole(least)
        except ValueError as error:
            raise ValueError(f"{error}; {NODES_HELP}") from None
        assert isinstance(most, int) and isinstance(fewest, int)
        if not 1 <= most <= MAX_NODES or fewest < 1:
            raise ValueError(f"must be at least 1 and at most {MAX_NODES}; {NODES_HELP}")
        if fewest > most:
            raise ValueError(f"must begin with the fewest; {NODES_HELP}")
        return cls(most, fewest)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read, serialization=core_schema.plain_serializer_function_ser_schema(cls.written)
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        number = {"type": "integer", "minimum": 1, "maximum": MAX_NODES}
        return {"anyOf": [number, {"type": "string", "pattern": r"^\d+(\.\.\d+)?$"}]}


class Part(BaseModel):
    """Frozen, and strict about fields it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=256 * 1024)


class CodeSpec(Part):
    """Where the program comes from beside an inline script."""

    folder: Path = ""
    git_url: Annotated[str, Field(max_length=1024), AfterValidator(values.git_url)] = ""
    git_ref: Annotated[str, Field(max_length=255), AfterValidator(values.git_ref)] = ""

    @model_validator(mode="after")
    def _one_source(self) -> CodeSpec:
        if self.folder and self.git_url:
            raise ValueError("give either a folder or a git URL, not both")
        if self.git_ref and not self.git_url:
            raise ValueError("git_ref needs a git_url")
        return self


class StopSpec(Part):
    """How the program is asked to stop before it is killed."""

    signal: Literal[STOP_SIGNALS] = "SIGTERM"  # type: ignore[valid-type]
    grace: Annotated[Duration, Field(ge=0, le=600)] = 30


class SessionSpec(Part):
    """A program that people talk to, through the portal, while it runs.

    The node starts `shell`, `jupyter`, `vscode` and `tensorboard`, the last two with the folder
    that the job begins in; of `command` the job's own command listens on the Unix socket
    `$TRAINYARD_SESSION_SOCKET` and serves HTTP below `$TRAINYARD_SESSION_PATH`. After `idle_stop`
    without a byte to or from people, and with its GPUs idle, it is stopped.
    """

    app: Literal[SESSION_APPS]  # type: ignore[valid-type]
    idle_stop: Annotated[Duration, Field(ge=10, le=7 * 86400)] = 1800

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: object) -> object:
        """`shell` says it in one word."""
        return {"app": value.strip()} if isinstance(value, str) else value


class TopologySpec(Part):
    """How close together the nodes of a job must be; without a level it does not matter.

    `required`: all in one rack or block, or it waits. `preferred`: together if that starts it no
    later. `balanced`: evenly over several of them.
    """

    level: Literal["", "rack", "block"] = ""
    mode: Literal["required", "preferred", "balanced"] = "required"

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: object) -> object:
        """`rack` or `rack:preferred` says it in one word."""
        if isinstance(value, str):
            level, colon, mode = value.strip().partition(":")
            return {"level": level} | ({"mode": mode} if colon else {})
        return value


def session_problems(spec: Any) -> Iterator[tuple[str, str]]:
    """(field, words) of what a spec asks for that no session has."""
    one = "a session is one program on one node; remove it or the session"
    several = {"array": spec.array, "nodes": spec.nodes != 1, "retries": spec.retries}
    several["retry_rules"] = bool(spec.retry_rules)
    several["processes"] = spec.processes == "gpu" and spec.gpus_per_node > 1
    yield from ((field, one) for field, is_asked in several.items() if is_asked)
    if spec.finish_by:
        yield "finish_by", "is for programs that end by themselves, not for sessions; remove it"


def _pool_names(value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of pools, the most wanted first."""
    if len(value) > MOST_OTHER_POOLS:
        raise ValueError(f"names {len(value)} pools; choose {MOST_OTHER_POOLS} at most")
    for name in value:
        if not values.slug(name):
            raise ValueError("names a pool without a name; list names with commas")
    if len(set(value)) < len(value):
        raise ValueError("names a pool twice; name each once")
    return value


OtherPools = Annotated[tuple[str, ...], BeforeValidator(values.listed), AfterValidator(_pool_names)]


def with_other_pools(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with what `pool: a, b` names after the first as its other pools, which do not
    name the first again; raises SpecInvalid where both say which others."""
    first, others = document.get("pool"), values.listed(document.get("other_pools"))
    named = [part.strip() for part in first.split(",")] if isinstance(first, str) else []
    if len(named) > 1 and all(named):
        if others:
            words = "names several pools beside other_pools; name the first one alone"
            raise SpecInvalid([SpecProblem("pool", words)])
        first, *others = named
        document = {**document, "pool": first, "other_pools": others}
    if isinstance(others, list | tuple) and first and first in others:
        document = {**document, "other_pools": [name for name in others if name != first]}
    return dict(document)


def choice_problems(spec: Any) -> Iterator[tuple[str, str]]:
    """(field, words) of what does not go with several pools to choose from."""
    if spec.other_pools and spec.booking:
        yield "other_pools", "a booking is of one pool; remove them or the booking"

"""JobSpec: what a person asks for. Per-node figures are per node; nothing is unlimited.

`parse_spec` turns a dictionary from any door into a checked, frozen JobSpec or raises SpecInvalid
with every problem. `JobSpec.document()` is the normalised form that is stored and shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from scheduler.spec import text, units, values
from scheduler.spec.order import AFTERCORR, Array, Dependencies
from scheduler.spec.parts import (
    MAX_NODES,
    STOP_SIGNALS,
    CodeSpec,
    NodeCount,
    OtherPools,
    Part,
    SessionSpec,
    StopSpec,
    TopologySpec,
    choice_problems,
    session_problems,
    with_other_pools,
)
from scheduler.spec.price import Price
from scheduler.spec.problems import SpecInvalid
from scheduler.spec.retrying.rules import RetryRules
from scheduler.spec.values import WHOLE_MILLI, Duration, Milli, Moment, Path, Size, Whole
from scheduler.spec.wording import problem_of
from scheduler.states import MASK, Tier, is_secret_name

__all__ = [
    "API_VERSION",
    "MAX_GPUS_PER_NODE",
    "MAX_NODES",
    "MAX_TIME_LIMIT_S",
    "STOP_SIGNALS",
    "CodeSpec",
    "JobSpec",
    "StopSpec",
    "parse_spec",
]

API_VERSION: Final = "trainyard/v1"
MAX_GPUS_PER_NODE = 64
MAX_TIME_LIMIT_S = 60 * 86400
MIN_DISCONNECT_GRACE_S = 60
MAX_SCRIPT_CHARS = 128 * 1024
MAX_SIZE_MIB = 64 * 1024 * 1024
Names = tuple[str, ...]


class JobSpec(Part):
    """The job as asked for; sizes in MiB and durations in seconds once parsed."""

    apiVersion: Literal["trainyard/v1"] = API_VERSION  # noqa: N815 - the document's own spelling
    kind: Literal["Job"] = "Job"
    name: Annotated[str, AfterValidator(text.clean_name)]
    description: Annotated[str, AfterValidator(text.clean_text)] = ""
    labels: dict[str, str] = Field(default_factory=dict, max_length=32)
    project: Annotated[str, AfterValidator(values.project)]
    pool: Annotated[str, AfterValidator(values.slug)] = ""
    other_pools: OtherPools = ()
    tier: Literal["exploratory", "normal", "urgent", "production"] = "normal"
    preemptible: bool | None = None
    min_runtime: Annotated[Duration, Field(ge=0, le=MAX_TIME_LIMIT_S)] = 0
    booking: Annotated[str, BeforeValidator(values.booking), AfterValidator(values.slug)] = ""
    begin: Moment = None
    finish_by: Moment = None
    finish_by_policy: Literal["keep", "cancel"] = "keep"
    depends_on: Dependencies = ()
    group: Annotated[str, AfterValidator(text.clean_group)] = ""
    group_policy: Literal["wait", "stop", "beside"] = "wait"
    array: Array = None
    nodes: NodeCount = NodeCount(1)
    node_sizes: Annotated[
        tuple[Annotated[Whole, Field(ge=1, le=MAX_NODES)], ...],
        Field(max_length=32),
        BeforeValidator(values.listed),
    ] = ()
    gpus_per_node: Annotated[Whole, Field(ge=0, le=MAX_GPUS_PER_NODE)] = 1
    gpu_milli: Milli = WHOLE_MILLI
    gpu_memory: Annotated[Size, Field(ge=0, le=4 * 1024 * 1024)] = 0
    gpu_model: Annotated[str, Field(max_length=96), AfterValidator(str.strip)] = ""
    gpu_models: Annotated[
        Names, BeforeValidator(values.listed), AfterValidator(values.model_names)
    ] = ()
    fallback_after: Annotated[Duration, Field(ge=0, le=30 * 86400)] = 0
    isolation: Literal["any", "timeslice", "mps", "mig"] = "any"
    share_cards: bool = False
    exclusive: bool = False
    cpus: Annotated[Whole, Field(ge=1, le=1024)] = 1
    memory: Annotated[Size, Field(ge=16, le=MAX_SIZE_MIB)] = 2048
    scratch: Annotated[Size, Field(ge=0, le=1024 * 1024 * 1024)] = 0
    licences: Annotated[
        dict[str, Whole],
        BeforeValidator(values.licence_counts),
        AfterValidator(values.licence_names),
    ] = Field(default_factory=dict)
    constraints: Annotated[
        Names, BeforeValidator(values.listed), AfterValidator(values.constraints)
    ] = ()
    exclude_nodes: Annotated[
        Names, BeforeValidator(values.listed), AfterValidator(values.node_names)
    ] = ()
    topology: TopologySpec = TopologySpec()
    datasets: Annotated[
        Names, BeforeValidator(values.listed), AfterValidator(values.dataset_names)
    ] = ()
    time_limit: Annotated[Duration, Field(ge=1, le=MAX_TIME_LIMIT_S)] = 3600
    max_cost: Price = None
    command: Annotated[
        tuple[str, ...],
        Field(max_length=1024),
        BeforeValidator(values.command),
        AfterValidator(values.checked_command),
    ] = ()
    script: Annotated[str, Field(max_length=MAX_SCRIPT_CHARS)] = ""
    code: CodeSpec = CodeSpec()
    processes: Literal["node", "gpu"] = "node"
    env: Annotated[dict[str, str], AfterValidator(text.clean_env)] = Field(default_factory=dict)
    secrets: Annotated[
        Names, BeforeValidator(values.listed), AfterValidator(values.secret_names)
    ] = ()
    working_dir: Path = ""
    retries: Annotated[Whole, Field(ge=0, le=20)] = 0
    retry_rules: RetryRules = ()
    notify: Annotated[Names, BeforeValidator(values.listed), AfterValidator(text.wishes)] = ()
    checkpoint_dir: Path = ""
    stop: StopSpec = StopSpec()
    disconnect_grace: Annotated[Duration, Field(ge=0, le=86400)] = 0
    session: SessionSpec | None = None
    hold: bool = False

    @model_validator(mode="after")
    def _has_a_program(self) -> JobSpec:
        _refuse_controls("script", self.script, allowed="\n\r\t\x0c\x1b")
        _refuse_controls("gpu_model", self.gpu_model)
        if self.session is not None and self.session.app != "command":
            if self.command or self.script.strip():
                raise ValueError(f"command|a session of {self.session.app} starts its own program")
        elif bool(self.command) == bool(self.script.strip()):
            raise ValueError("command|give either a command or a script")
        if self.script and (self.code.folder or self.code.git_url):
            raise ValueError("script|a script stands alone; use a command with a folder or git URL")
        for key, value in self.labels.items():
            if not values.SLUG.fullmatch(key) or len(value) > 128:
                raise ValueError(
                    f"labels|{key[:40]!r} is not a label with a value of up to 128 characters; "
                    "write lower-case letters, digits and dashes, such as exp=llm3"
                )
            _refuse_controls("labels", value)
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> JobSpec:
        contradiction = next(_contradictions(self), None)
        if contradiction:
            raise ValueError("|".join(contradiction))
        return self

    @property
    def tier_number(self) -> int:
        """The tier as the number that orders the queue; higher is sooner."""
        return int(Tier[self.tier.upper()])

    @property
    def gpus(self) -> int:
        """Devices in all, on the most nodes it takes."""
        return int(self.nodes) * self.gpus_per_node

    @property
    def tries_by_rules(self) -> int:
        """How often all its retry rules together may try it again."""
        return sum(rule.most for rule in self.retry_rules)

    @property
    def is_preemptible(self) -> bool:
        """Whether it may be stopped for others; all may but production, unless it is said."""
        return self.tier != "production" if self.preemptible is None else self.preemptible

    def for_others(self) -> JobSpec:
        """The spec without the values of variables that are secrets by their names."""
        hidden = {n: MASK if is_secret_name(n) else value for n, value in self.env.items()}
        return self.model_copy(update={"env": hidden})

    def run_by_another(self) -> JobSpec:
        """The spec as somebody else runs it: another person's secrets are not theirs to run with;
        their jobs name their own."""
        kept = {name: value for name, value in self.env.items() if not is_secret_name(name)}
        return self.model_copy(update={"env": kept})

    def afresh(self, now: datetime) -> JobSpec:
        """The spec as a job of its own has it now: without a moment that is over."""
        if self.finish_by is None or self.finish_by > now:
            return self
        return self.model_copy(update={"finish_by": None, "finish_by_policy": "keep"})

    def document(self) -> dict[str, Any]:
        """The normalised spec as plain JSON values, what is stored, shown and cloned."""
        return self.model_dump(mode="json")

    def readable(self, also: Collection[str] = ()) -> dict[str, Any]:
        """As `document`, durations and sizes as people write them; defaults are left out but for
        the fields in `also`."""
        shown = self.model_dump(mode="json", exclude_defaults=True)
        shown |= self.model_dump(mode="json", include=set(also) - shown.keys())
        shown = {"apiVersion": self.apiVersion, "kind": self.kind, **shown}
        for field in ("time_limit", "min_runtime", "fallback_after", "disconnect_grace"):
            if field in shown or field == "time_limit":
                shown[field] = units.format_duration(getattr(self, field))
        for field in ("memory", "gpu_memory", "scratch"):
            if field in shown or field == "memory":
                shown[field] = units.format_size_mib(getattr(self, field))
        if "gpu_milli" in shown:
            shown["gpu_milli"] = values.format_milli(self.gpu_milli)
        if "stop" in shown and "grace" in shown["stop"]:
            shown["stop"]["grace"] = units.format_duration(self.stop.grace)
        if self.session is not None:
            shown["session"]["idle_stop"] = units.format_duration(self.session.idle_stop)
        return shown


def _refuse_controls(field: str, value: str, *, allowed: str = "") -> None:
    try:
        text.refuse_controls(value, allowed=allowed)
    except ValueError as error:
        raise ValueError(f"{field}|{error}") from None


def _contradictions(spec: JobSpec) -> Any:
    """(field, what is wrong with it beside the other fields and what to do), one by one."""
    without = "a job without GPUs has none; remove it or ask for GPUs"
    if not spec.gpus_per_node:
        named = ("gpu_model", "gpu_models", "gpu_memory", "share_cards", "max_cost")
        yield from ((field, without) for field in named if getattr(spec, field))
        parts = {"gpu_milli": spec.gpu_milli < WHOLE_MILLI, "isolation": spec.isolation != "any"}
        yield from ((field, without) for field, is_asked in parts.items() if is_asked)
        if spec.processes == "gpu":
            yield "processes", "a job without GPUs cannot have one process per GPU; use node"
    if spec.gpu_milli < WHOLE_MILLI and spec.gpus_per_node > 1:
        yield "gpu_milli", "is a part of one GPU; set gpus_per_node to 1, or ask for whole GPUs"
    if spec.isolation != "any" and spec.gpu_milli == WHOLE_MILLI:
        yield "isolation", "is about parts of a GPU; set gpu_milli, or leave it any"
    if spec.gpu_model and spec.gpu_models:
        yield "gpu_models", "is given beside gpu_model; name all models in gpu_models"
    if spec.fallback_after and len(spec.gpu_models) < 2:
        yield "fallback_after", "needs two or more models in gpu_models to fall back to"
    if spec.node_sizes:
        sizes, least, most = spec.node_sizes, spec.nodes.least, int(spec.nodes)
        if list(sizes) != sorted(set(sizes)):
            yield "node_sizes", "must rise, each size once"
        elif least == most:
            yield "node_sizes", "needs nodes as a range, such as nodes: 2..8"
        elif sizes[0] < least or sizes[-1] != most:
            yield "node_sizes", f"must lie within {least}..{most} and end with {most}"
    if spec.topology.level and spec.nodes == 1 and spec.topology.mode != "required":
        yield "topology", "is about several nodes; ask for more nodes or remove it"
    if spec.min_runtime > spec.time_limit:
        yield "min_runtime", "is longer than the time limit; make it shorter"
    if spec.finish_by_policy != "keep" and spec.finish_by is None:
        yield "finish_by_policy", "says what follows after finish_by; give that too, or remove it"
    if spec.begin and spec.finish_by and spec.finish_by <= spec.begin:
        yield "finish_by", "does not lie after begin; choose a later moment, or begin sooner"
    if 0 < spec.disconnect_grace < MIN_DISCONNECT_GRACE_S:
        yield "disconnect_grace", "is below 1m, the least; leave it out for what is usual here"
    yield from text.group_problems(spec.group, spec.group_policy, spec.session is not None)
    yield from text.notify_problems(spec.notify, len(spec.array.indexes) if spec.array else 1)
    yield from session_problems(spec) if spec.session else ()
    yield from choice_problems(spec)
    if spec.array and any(one.kind == "singleton" for one in spec.depends_on):
        yield "depends_on", "singleton would run an array one by one; use max_parallel: 1"
    if not spec.array and any(one.kind == AFTERCORR for one in spec.depends_on):
        words = "aftercorr waits task for task; give this job an array as well, or use afterok"
        yield "depends_on", words


def parse_spec(document: Mapping[str, Any]) -> JobSpec:
    """Check a document from any door; raises SpecInvalid with all its problems."""
    try:
        return JobSpec.model_validate(with_other_pools(document))
    except ValidationError as error:
        raise SpecInvalid([problem_of(one) for one in error.errors(include_url=False)]) from None

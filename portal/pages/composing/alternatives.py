"""What if it were smaller, larger, shorter or on another model: the same job, quoted again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from accounts.errors import DomainError
from accounts.models import User
from portal.forms.jobs import LABELS
from portal.forms.labels import in_labels
from portal.templatetags.measures import device_short_name
from scheduler.loop.supposing.quoting import quote_alone
from scheduler.models import Job, TemplateVersion
from scheduler.services.composing.allowing import refuse_outside
from scheduler.services.submitting.quotes import Quote
from scheduler.spec import JobSpec, SpecInvalid, parse_spec
from scheduler.spec.schema import MAX_GPUS_PER_NODE
from scheduler.states import whole_span

MOST_MODELS = 3
_SHORTEST_S = 600


@dataclass(frozen=True, slots=True)
class Alternative:
    """One change, as the composer's `use` takes it, and what it would meet; `problem` when it
    cannot be."""

    fix: str
    words: str
    gpus: int
    quote: Quote | None
    problem: str = ""


def alternatives(
    viewer: User,
    spec: JobSpec,
    models: Iterable[str],
    version: TemplateVersion | None,
    origin: Job | None,
) -> list[Alternative]:
    """Each decides one cycle of the engine, as a quote does; at most seven. Writes nothing.

    `origin`: what it is cloned from, as its template has to know.
    """
    document = spec.document()
    return [
        _quoted(viewer, fix, words, {**document, **changes}, version, origin)
        for fix, words, changes in _changes(spec, models)
    ]


def _changes(spec: JobSpec, models: Iterable[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    cards, nodes = spec.gpus_per_node, int(spec.nodes)
    is_range = spec.nodes.least != nodes or spec.node_sizes
    if cards > 1:
        yield f"gpus:{cards // 2}", _cards(cards // 2), {"gpus_per_node": cards // 2}
    if nodes > 1 and not is_range:
        half = nodes // 2
        yield f"nodes:{half}", f"{half} of {nodes} nodes", {"nodes": half}
    if 0 < cards * 2 <= MAX_GPUS_PER_NODE and spec.gpu_milli == 1000:
        yield f"gpus:{cards * 2}", _cards(cards * 2), {"gpus_per_node": cards * 2}
    if spec.time_limit >= 2 * _SHORTEST_S:
        half = spec.time_limit // 2
        short = min(spec.min_runtime, half)
        changes = {"time_limit": half, "min_runtime": short}
        yield f"limit:{half}", f"at most {whole_span(half)}", changes
    if cards and not spec.gpu_models:
        others = [one for one in ("", *models) if one != spec.gpu_model]
        for model in others[:MOST_MODELS]:
            words = device_short_name(model) if model else "any model"
            yield f"model:{model}", words, {"gpu_model": model}


def _cards(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'} per node"


def _quoted(
    viewer: User,
    fix: str,
    words: str,
    document: dict[str, Any],
    version: TemplateVersion | None,
    origin: Job | None,
) -> Alternative:
    try:
        spec = parse_spec(document)
        if version is not None:
            refuse_outside(version, spec, origin)
        template = version.template_id if version else 0
        quote = quote_alone(actor=viewer, spec=spec, template=template)
        return Alternative(fix, words, spec.gpus, quote)
    except SpecInvalid as refused:
        first = refused.problems[0]
        problem = in_labels(f"{first.field}: {first.message}", LABELS)
    except DomainError as refused:
        problem = in_labels(refused.detail, LABELS)
    return Alternative(fix, words, 0, None, problem)

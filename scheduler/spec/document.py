"""YAML or JSON text to a plain dictionary, with the traps of both formats closed."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

import yaml

from scheduler.spec.problems import SpecInvalid, SpecProblem

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_NODES = 10_000
MAX_DEPTH = 16
_TOO_LARGE = "is too large or too deep"


class _Loader(yaml.SafeLoader):
    """Safe loader without anchors' explosion, duplicate keys, or `no` meaning False."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._depth = 0

    def _mark(self) -> Any:
        return self.peek_event().start_mark  # type: ignore[no-untyped-call]

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(None, None, "aliases are not accepted", self._mark())
        # PyYAML fails in many ways over values that are not what their tag says.
        tag = getattr(self.peek_event(), "tag", None)  # type: ignore[no-untyped-call]
        if tag not in (None, "!", "tag:yaml.org,2002:str"):
            words = f"the tag {tag[:60]!r} is not accepted; write the value without it"
            raise yaml.MarkedYAMLError(None, None, words, self._mark())
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES or self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                None, None, "the document is too large or too deep", self._mark()
            )
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                raise yaml.MarkedYAMLError(
                    None, None, f"the key {key!r} appears twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _yaml12_booleans(loader: type[_Loader]) -> None:
    """Only true and false are booleans; YAML 1.1's yes, no, on, off stay the text they are.

    Also: 1_000 and 1:30 stay text, so that a time limit `1:30:00` is not read as base 60.
    """
    resolvers: dict[str, list[tuple[str, Any]]] = {}
    dropped = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items():
        resolvers[first] = [(tag, regexp) for tag, regexp in pairs if tag not in dropped]
    loader.yaml_implicit_resolvers = resolvers
    loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool",
        re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
        list("tTfF"),
    )
    loader.add_implicit_resolver(
        "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789")
    )


_yaml12_booleans(_Loader)


def read_document(text: str) -> dict[str, Any]:
    """One YAML or JSON document as a dictionary; raises SpecInvalid."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_DOCUMENT_BYTES:
        raise _invalid(f"is larger than {MAX_DOCUMENT_BYTES // 1024} KiB")
    text = text.lstrip("\ufeff")
    # Not all JSON is YAML to PyYAML: tabs, and characters that are escaped in two halves.
    found = _of_json(text) if text.lstrip().startswith("{") else None
    return found if found is not None else _of_yaml(text)


def _of_json(text: str) -> dict[str, Any] | None:
    """A JSON object; None for what is none, which YAML may be; raises SpecInvalid."""
    try:
        found = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite
        )
    except RecursionError:
        raise _invalid(_TOO_LARGE) from None
    except SpecInvalid:
        raise
    except ValueError:
        return None
    if _nodes(found, 1) > MAX_NODES:
        raise _invalid(_TOO_LARGE)
    return found if isinstance(found, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _invalid(f"cannot be read as JSON: the key {key[:60]!r} appears twice")
        found[key] = value
    return found


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _no_number(text)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text[:40]} is no number")


def _nodes(value: Any, depth: int) -> int:
    """How many values and keys there are; raises SpecInvalid for what is too deep."""
    if depth > MAX_DEPTH:
        raise _invalid(_TOO_LARGE)
    if isinstance(value, dict):
        return 1 + len(value) + sum(_nodes(one, depth + 1) for one in value.values())
    if isinstance(value, list):
        return 1 + sum(_nodes(one, depth + 1) for one in value)
    return 1


def _of_yaml(text: str) -> dict[str, Any]:
    try:
        loaded = yaml.load(text, Loader=_Loader)  # noqa: S506 - safe subclass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = error.problem or error.context or ""
        # Its own words for it are those of who writes a reader of YAML.
        why = "a tab, where YAML takes spaces alone" if r"'\t'" in problem else problem
        raise _invalid(f"cannot be read as YAML: {why}{where}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _invalid(f"is not YAML or JSON: {str(error)[:200]}") from None
    if not isinstance(loaded, dict):
        raise _invalid("must name fields with their values, one a line, such as time_limit: 2h")
    return loaded


def _invalid(message: str) -> SpecInvalid:
    return SpecInvalid([SpecProblem("document", message)])

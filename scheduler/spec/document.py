"""YAML or JSON text to a plain dictionary, with the traps of both formats closed."""

from __future__ import annotations

import re
from typing import Any

import yaml

from scheduler.spec.problems import SpecInvalid, SpecProblem

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_NODES = 10_000
MAX_DEPTH = 16


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
    """One YAML or JSON document (JSON is YAML) as a dictionary; raises SpecInvalid."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_DOCUMENT_BYTES:
        raise _invalid(f"is larger than {MAX_DOCUMENT_BYTES // 1024} KiB")
    try:
        loaded = yaml.load(text.lstrip("\ufeff"), Loader=_Loader)  # noqa: S506 - safe subclass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise _invalid(f"cannot be read as YAML: {error.problem or error.context}{where}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _invalid(f"is not YAML or JSON: {str(error)[:200]}") from None
    if not isinstance(loaded, dict):
        raise _invalid("must be a mapping of field names to values")
    return loaded


def _invalid(message: str) -> SpecInvalid:
    return SpecInvalid([SpecProblem("document", message)])

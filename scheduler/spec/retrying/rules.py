"""One retry rule, and the ways to write it: fields, or one line of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from signal import Signals
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from scheduler.spec import text, units
from scheduler.spec.problems import given
from scheduler.spec.retrying.patterns import compiled
from scheduler.spec.values import whole
from scheduler.states import FailureClass

MAX_RULES: Final = 8
MAX_RETRIES: Final = 20
MAX_WAIT_S: Final = 86_400
MAX_CHARS: Final = 200
MAX_CODE: Final = 255
MAX_LISTED: Final = 32
CLASSES: Final = tuple(str(one) for one in FailureClass if one is not FailureClass.NONE)
_ACTIONS: Final = ("retry", "stop")
_CONDITIONS: Final = ("exit", "signal", "failure", "log", "log_pattern")
_FIELDS: Final = (*_CONDITIONS, "action", "max", "wait")
# They take the rest of the line, colons and all.
_TEXTS: Final = ("log", "log_pattern")
RULE_HELP = "write it like exit=75,77:3:wait=1m, failure=user_resource:stop or exit=1:2:log=NCCL"


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Of an end that is like all that is given here: try again, `most` times at most, after a wait
    of `wait_s`, each time twice as long up to `longest_s` where that is larger; or `stop`.

    `exits` are first and last exit codes, `signals` numbers; empty ones ask for nothing.
    """

    exits: tuple[tuple[int, int], ...] = ()
    signals: tuple[int, ...] = ()
    failures: tuple[str, ...] = ()
    log: str = ""
    log_pattern: str = ""
    stops: bool = False
    most: int = 0
    wait_s: int = 0
    longest_s: int = 0

    def wait_before(self, used: int) -> int:
        """Seconds until the next try, after so many by this rule."""
        return min(self.wait_s << min(used, 20), max(self.wait_s, self.longest_s))

    def written(self) -> dict[str, Any]:
        """By its fields, as `read_rules` takes it."""
        exits = ",".join(str(a) if a == b else f"{a}..{b}" for a, b in self.exits)
        found: dict[str, Any] = {
            "exit": exits,
            "signal": ",".join(Signals(one).name for one in self.signals),
            "failure": ",".join(self.failures),
            "log": self.log,
            "log_pattern": self.log_pattern,
            "action": "stop" if self.stops else "",
            "max": self.most,
            "wait": self._wait(),
        }
        return {name: value for name, value in found.items() if value}

    def _wait(self) -> str:
        if not self.wait_s:
            return ""
        first = units.format_duration(self.wait_s)
        is_growing = self.longest_s > self.wait_s
        return f"{first}..{units.format_duration(self.longest_s)}" if is_growing else first

    @property
    def line(self) -> str:
        """The same in one line, as `read_rules` takes it, too."""
        said = self.written()
        parts = [f"{name}={said[name]}" for name in _CONDITIONS[:3] if name in said]
        parts += ["stop"] if self.stops else [str(self.most)]
        parts += [f"wait={said['wait']}"] if self.wait_s else []
        parts += [f"{name}={said[name]}" for name in _TEXTS if name in said]
        return ":".join(parts)


def read_rules(value: object) -> tuple[RetryRule, ...]:
    """Rules in their order: a list of mappings or lines, or one text with a rule a line. Raises
    ValueError that names the rule by its place, counted from one."""
    if isinstance(value, str):
        value = [line for line in value.splitlines() if line.strip()]
    elif isinstance(value, (Mapping, RetryRule)):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"must be a list of rules; {RULE_HELP}")
    if len(value) > MAX_RULES:
        raise ValueError(f"has {len(value)} rules; at most {MAX_RULES} are allowed")
    found = []
    for number, item in enumerate(value, start=1):
        try:
            found.append(_read(item))
        except ValueError as error:
            raise ValueError(f"has a fault in rule {number}: {error}") from None
    return tuple(found)


def write_lines(value: Iterable[Any]) -> str:
    """Rules, also as mappings of a stored spec, as the text that `read_rules` takes."""
    return "\n".join(rule.line for rule in read_rules(tuple(value)))


def _read(item: object) -> RetryRule:
    if isinstance(item, RetryRule):
        return item
    sent = _of_line(item) if isinstance(item, str) else item
    if not isinstance(sent, Mapping):
        raise ValueError(f"{given(item)} is no rule; {RULE_HELP}")
    alien = next((str(name)[:40] for name in sent if name not in _FIELDS), None)
    if alien is not None:
        raise ValueError(f"has the field {alien!r}; a rule has {', '.join(_FIELDS)}")
    return _of_fields({name: one for name, one in sent.items() if one not in (None, "", [])})


def _of_line(line: str) -> dict[str, str]:
    """`exit=75,77:3:wait=1m` by its fields; `log=` and `log_pattern=` take the rest of the line."""
    found: dict[str, str] = {}
    rest = line.strip()
    while rest:
        name, equals, _ = rest.partition("=")
        if equals and name.strip() in _TEXTS:
            part, rest = rest, ""
        else:
            part, _, rest = rest.partition(":")
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            name, value = ("action" if name in _ACTIONS else "max"), name
        if not value:
            raise ValueError(f"{given(part.strip())} says nothing; {RULE_HELP}")
        if name in found:
            raise ValueError(f"says {name} twice; say it once")
        found[name] = value
    return found


def _of_fields(sent: Mapping[str, Any]) -> RetryRule:
    for one, other in (("exit", "signal"), ("log", "log_pattern")):
        if one in sent and other in sent:
            raise ValueError(f"has both {one} and {other}; make two rules of it")
    action = sent.get("action", "retry")
    if action not in _ACTIONS:
        raise ValueError(f"action must be one of {', '.join(_ACTIONS)}, not {given(action)}")
    stops = action == "stop"
    extra = next((name for name in ("max", "wait") if stops and name in sent), None)
    if extra is not None:
        raise ValueError(f"stops, so it has no {extra}; remove that")
    first, longest = _wait(sent["wait"]) if "wait" in sent else (0, 0)
    rule = RetryRule(
        exits=tuple(dict.fromkeys(_exit(one) for one in _listed(sent.get("exit", ())))),
        signals=tuple(dict.fromkeys(_signal(one) for one in _listed(sent.get("signal", ())))),
        failures=tuple(dict.fromkeys(_failure(one) for one in _listed(sent.get("failure", ())))),
        log=_text("log", sent.get("log", "")),
        log_pattern=_pattern(sent.get("log_pattern", "")),
        stops=stops,
        wait_s=first,
        longest_s=longest,
    )
    if not (rule.exits or rule.signals or rule.failures or rule.log or rule.log_pattern):
        names = ", ".join(_CONDITIONS)
        raise ValueError(f"has no condition; give one of {names}, such as exit=1..255 for any code")
    return rule if stops else replace(rule, most=_most(sent.get("max")))


def _listed(value: object) -> list[object]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(found) > MAX_LISTED:
        raise ValueError(f"lists {len(found)} values; write at most {MAX_LISTED}, or ranges")
    return found


def _exit(value: object) -> tuple[int, int]:
    words = f"{given(value)} is no exit code; write 1 to {MAX_CODE}, or a range such as 64..78"
    ends = str(value).replace("..", "-").split("-") if isinstance(value, str) else [value]
    try:
        found = [whole(one) for one in ends]
    except ValueError:
        raise ValueError(words) from None
    first, last = found[0], found[-1]
    assert isinstance(first, int) and isinstance(last, int)
    if len(found) > 2 or not 1 <= first <= last <= MAX_CODE:
        raise ValueError(words)
    return first, last


def _signal(value: object) -> int:
    name = str(value).strip().upper()
    name = name if name.startswith("SIG") or name.isdigit() else f"SIG{name}"
    known = {str(one.value): one for one in Signals} | {one.name: one for one in Signals}
    if isinstance(value, bool) or name not in known:
        raise ValueError(f"{given(value)} is no signal; write it like SIGKILL or SIGSEGV")
    return int(known[name])


def _failure(value: object) -> str:
    if value not in CLASSES:
        raise ValueError(f"{given(value)} is no class; failure is one of {', '.join(CLASSES)}")
    return str(value)


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_CHARS:
        raise ValueError(f"{field} must be a text of at most {MAX_CHARS} characters on one line")
    try:
        text.refuse_controls(value)
    except ValueError as error:
        raise ValueError(f"{field} {error}") from None
    return value.strip()


def _pattern(value: object) -> str:
    pattern = _text("log_pattern", value)
    if pattern:
        compiled(pattern)
    return pattern


def _most(value: object) -> int:
    words = f"say how often it may try again, 1 to {MAX_RETRIES}: max: 3, or :3 in a line"
    if value is None:
        raise ValueError(words)
    try:
        most = whole(value)
    except ValueError:
        raise ValueError(f"max is {given(value)}; {words}") from None
    if not isinstance(most, int) or not 1 <= most <= MAX_RETRIES:
        raise ValueError(f"max is {given(value)}; {words}")
    return most


def _wait(value: object) -> tuple[int, int]:
    """The first wait and the longest, seconds."""
    ends = value.split("..") if isinstance(value, str) else [value]
    try:
        found = [units.parse_duration(one) for one in ends]
    except ValueError as error:
        raise ValueError(f"wait: {error}; 1m..1h doubles it each time") from None
    if len(found) > 2 or not 0 <= found[0] <= found[-1] <= MAX_WAIT_S:
        raise ValueError(f"wait is {given(value)}; write up to 24h, such as 1m, or 1m..1h")
    if len(found) > 1 and not found[0]:
        raise ValueError("wait begins with nothing, which never doubles; write it like 10s..10m")
    return found[0], found[-1]


_SHAPE: Final = {
    "type": "object",
    "properties": {
        "exit": {
            "anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "array"}],
            "description": "exit codes and ranges: 75, or 75,64..70",
        },
        "signal": {"type": "string", "description": "signals that ended it: SIGKILL,SIGSEGV"},
        "failure": {"type": "string", "description": f"classes: {', '.join(CLASSES)}"},
        "log": {"type": "string", "maxLength": MAX_CHARS, "description": "a text in a last line"},
        "log_pattern": {"type": "string", "maxLength": MAX_CHARS, "description": "RE2, in a line"},
        "action": {"type": "string", "enum": list(_ACTIONS), "default": "retry"},
        "max": {"type": "integer", "minimum": 1, "maximum": MAX_RETRIES},
        "wait": {
            "anyOf": [{"type": "string"}, {"type": "integer"}],
            "description": "before the next try: 1m, or 1m..1h to double it each time",
        },
    },
    "additionalProperties": False,
}
RetryRules = Annotated[
    tuple[RetryRule, ...],
    BeforeValidator(read_rules),
    PlainSerializer(lambda found: [one.written() for one in found], return_type=list[Any]),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, _SHAPE]},
            "maxItems": MAX_RULES,
            "description": "The first that matches an end decides. As lines, such as "
            "exit=75,77:3:wait=1m or failure=user_resource:stop; or as objects.",
        }
    ),
]

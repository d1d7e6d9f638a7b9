"""The `#SBATCH` lines of a script as (line, option, value): what sbatch itself would read of them.

After the manual page of sbatch, sections DESCRIPTION and OPTIONS: directives stand before the first
line that is neither empty nor a comment; long options may be shortened as far as they stay unique;
the value of a short option may follow at once (`-N4`) or after a space.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

MARK = "#SBATCH"
MAX_LINES = 20_000
# Whether an option takes a value: "always", "never", or "may", which then needs the `=`.
ALWAYS, NEVER, MAY = "always", "never", "may"


@dataclass(frozen=True, slots=True)
class Given:
    """One option as it was given: `name` is the long one without dashes, `written` as it stood.

    `value` is None where none was given. `fault` says what is wrong with the spelling.
    """

    line: int
    name: str
    written: str
    value: str | None = None
    fault: str = ""


def options_of(
    text: str, known: Mapping[str, str], short: Mapping[str, str]
) -> tuple[list[Given], str]:
    """The options of a script in their order, and the script without the lines that held them.

    `known`: long option to whether it takes a value; `short`: letter to long option.
    """
    given: list[Given] = []
    kept: list[str] = []
    is_over = False
    for number, line in enumerate(text.splitlines()[:MAX_LINES], start=1):
        stripped = line.strip()
        if _is_directive(line):
            words = line[len(MARK) :]
            if is_over:
                given.append(
                    Given(
                        number,
                        "",
                        f"{MARK} {words.strip()}"[:80],
                        fault="stands after the first command; sbatch does not read it there",
                    )
                )
            else:
                given += _split(number, words, known, short)
            continue
        is_over = is_over or bool(stripped and not stripped.startswith("#"))
        kept.append(line)
    body = "\n".join(kept).strip("\n")
    return given, f"{body}\n" if body else ""


def is_batch_script(text: str) -> bool:
    """Whether a text holds directives for sbatch at all."""
    return any(_is_directive(line) for line in text.splitlines()[:MAX_LINES])


def _is_directive(line: str) -> bool:
    rest = line[len(MARK) : len(MARK) + 1]
    return line.startswith(MARK) and (not rest or rest.isspace())


def _split(
    number: int, words: str, known: Mapping[str, str], short: Mapping[str, str]
) -> list[Given]:
    try:
        found = shlex.split(words, comments=True)
    except ValueError:
        return [Given(number, "", words.strip()[:80], fault="has a quote that does not close")]
    given: list[Given] = []
    while found:
        word = found.pop(0)
        if word.startswith("--") and len(word) > 2:
            given.append(_long(number, word, found, known))
        elif word.startswith("-") and len(word) > 1:
            given.append(_short(number, word, found, known, short))
        else:
            given.append(Given(number, "", word[:80], fault="is no option"))
    return given


def _long(number: int, word: str, rest: list[str], known: Mapping[str, str]) -> Given:
    spelt, equals, value = word[2:].partition("=")
    fits = [spelt] if spelt in known else [name for name in known if name.startswith(spelt)]
    if len(fits) != 1:
        fault = "is no option of sbatch that is known here" if not fits else _several(fits)
        return Given(number, "", word[:80], fault=fault)
    return _with_value(number, fits[0], word, value if equals else None, rest, known)


def _short(
    number: int,
    word: str,
    rest: list[str],
    known: Mapping[str, str],
    short: Mapping[str, str],
) -> Given:
    name = short.get(word[1])
    if name is None:
        return Given(number, "", word[:80], fault="is no option of sbatch that is known here")
    value = word[2:].removeprefix("=") or None
    return _with_value(number, name, word, value, rest, known)


def _with_value(
    number: int,
    name: str,
    word: str,
    value: str | None,
    rest: list[str],
    known: Mapping[str, str],
) -> Given:
    written = word
    if known[name] == ALWAYS and value is None and rest:
        value = rest.pop(0)
        written = f"{word} {value}"
    if known[name] == ALWAYS and not value:
        return Given(number, "", written[:80], fault="needs a value")
    return Given(number, name, written[:80], value)


def _several(fits: list[str]) -> str:
    return f"may be {' or '.join(f'--{name}' for name in fits[:4])}; write it in full"

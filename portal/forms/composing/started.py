"""A text that a job starts from: YAML, JSON or a script for sbatch, to the composer's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.forms.job_text import PLAIN, initial_from
from scheduler.spec import SpecInvalid, SpecProblem, read_document
from scheduler.spec.document import MAX_DOCUMENT_BYTES
from scheduler.spec.partial import read_partial
from scheduler.spec.slurm import Remark, convert, is_batch_script


@dataclass(frozen=True, slots=True)
class Started:
    """What a text says: `document` holds what is right, `initial` all that a field can show.

    `is_batch`: it was a script for sbatch.
    """

    document: dict[str, Any]
    initial: dict[str, Any]
    remarks: tuple[Remark, ...]
    is_batch: bool

    @property
    def lost(self) -> int:
        """How many things of the text are not in the job."""
        return sum(one.became == "lost" for one in self.remarks)

    @property
    def quiet(self) -> list[Remark]:
        """What was taken over as it was, or left out without any difference."""
        return [one for one in self.remarks if one.became in ("taken", "harmless")]


def start_from(
    text: str, *, models: Sequence[str], chosen: Mapping[str, str], own: Sequence[str] = ()
) -> Started:
    """Read a text; `chosen` are the project and pool of one that names none, `own`
    the mail address and name of who submits.

    Raises SpecInvalid when it is no document at all.
    """
    if not text.strip():
        raise SpecInvalid([SpecProblem("document", "is empty; paste a job or choose a file")])
    if len(text) > MAX_DOCUMENT_BYTES:
        size = f"is larger than {MAX_DOCUMENT_BYTES // 1024} KiB"
        raise SpecInvalid([SpecProblem("document", size)])
    is_batch = is_batch_script(text)
    remarks: list[Remark] = []
    if is_batch:
        converted = convert(text, models=models, own=own)
        sent = converted.document
        remarks += converted.remarks
    else:
        sent = read_document(text)
    found = read_partial({name: one for name, one in chosen.items() if one} | sent)
    remarks += [Remark(0, one.field, "lost", one.message) for one in found.problems]
    written = {
        name: value
        for name, value in found.refused.items()
        if name in PLAIN and isinstance(value, (str, int)) and not isinstance(value, bool)
    }
    return Started(found.document, initial_from(found.document) | written, tuple(remarks), is_batch)

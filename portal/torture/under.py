"""Run one of the product's programs with a planted bug, or on a node that was "started anew".

`python -m portal.torture.under PLANT BOOT_FILE -m MODULE ARGUMENT…`; `-` for neither. This is the
one door for bugs: they are put into a program from outside as it starts, never into its paths.
Standard library only, as far as it is imported by the bare processes that start supervisors.
"""

from __future__ import annotations

import os
import runpy
import sys
from functools import cache
from pathlib import Path

_NONE = "-"


def prepare(plant: str, boot_file: str) -> None:
    """Put the bug and the boot's name into this process, and into the supervisors it will start."""
    from scheduler.agent.runtime import forkserver, processes

    if boot_file != _NONE:
        name = Path(boot_file).read_text(encoding="ascii").strip()

        @cache
        def boot_id() -> str:
            return name

        processes.boot_id = boot_id
        line = (
            "import sys; sys.path.insert(0, sys.argv[1]);"
            "from portal.torture.under import prepare;"
            f"prepare({plant!r}, {boot_file!r});"
        )
        rest = "from scheduler.agent.runtime.forkserver import serve; serve(int(sys.argv[2]))"
        forkserver._BOOTSTRAP = line + rest
    if plant != _NONE:
        from portal.torture.plants import PLANTS

        chosen = PLANTS[plant]
        if boot_file == _NONE:
            work = chosen.on_server
        elif sys.flags.no_site:
            work = chosen.in_guard
        else:
            work = chosen.in_agent
        if work is not None and boot_file == _NONE:
            _set_up_django()
        if work is not None:
            work()


def _set_up_django() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.embedded")
    django.setup()


def main(words: list[str]) -> None:
    """Prepare, then become the program."""
    plant, boot_file, flag, module, *arguments = words
    if flag != "-m":
        sys.exit("under: say PLANT BOOT_FILE -m MODULE")
    prepare(plant, boot_file)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Writes what an installation consists of as a bill of materials: CycloneDX 1.6, JSON.

Listed are the packages of `requirements.lock` with versions and hashes, and the browser's libraries
of `static/vendor`. Licences are as the installed packages declare them; one that is not installed
here, such as for another system or Python, is listed without. Asks nobody outside.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
VENDORED = ROOT / "static" / "vendor" / "VENDOR.md"
WRITTEN = "trainyard.cdx.json"
_LOCKED = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.+?))? \\$")
_HASH = re.compile(r"^    --hash=sha256:([0-9a-f]{64})")
_FILE = re.compile(r"^\| `([^`]+)` \| (\S+) \| (\S+) \| (\S+) \| `([0-9a-f]{64})` \|$", re.M)
# Of the many that SPDX knows those that packages name so in a field that may hold anything.
_KNOWN = frozenset({"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "0BSD"})
_LONGEST = 80


def bill(now: datetime) -> dict[str, Any]:
    """The whole document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    of_these = hashlib.sha256(LOCK.read_bytes() + VENDORED.read_bytes()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, of_these)}",
        "version": 1,
        "metadata": {
            "timestamp": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "pre-build"}],
            "component": {
                "type": "application",
                "bom-ref": project["name"],
                "name": project["name"],
                "version": project["version"],
                "licenses": [_licence(project["license"])],
            },
        },
        "components": [*python_packages(LOCK.read_text("utf-8")), *browser_libraries()],
    }


def python_packages(lock: str) -> Iterator[dict[str, Any]]:
    """A component for each package of a lock file, with the hashes of all its files; `optional`
    where only some systems or Pythons need it."""
    here = {(_plain(one.name), one.version): one for one in distributions()}
    found: dict[str, Any] = {}
    for line in lock.splitlines():
        if locked := _LOCKED.match(line):
            if found:
                yield found
            name, version, marker = locked.group("name", "version", "marker")
            found = _component("pypi", name, version) | {
                "scope": "optional" if marker else "required",
                "hashes": [],
            }
            if marker:
                found["properties"] = [{"name": "trainyard:only-if", "value": marker}]
            if told := licences_of(here.get((name, version))):
                found["licenses"] = told
        elif digest := _HASH.match(line):
            found["hashes"].append({"alg": "SHA-256", "content": digest[1]})
    if found:
        yield found


def browser_libraries() -> Iterator[dict[str, Any]]:
    """A component for each library that pages load, with its files as they lie here."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for file, name, version, licence, digest in _FILE.findall(VENDORED.read_text("utf-8")):
        made = _component("npm", name, version) | {
            "scope": "required",
            "licenses": [_licence(licence)],
            "components": [],
        }
        found.setdefault((name, version), made)["components"].append(
            {"type": "file", "name": file, "hashes": [{"alg": "SHA-256", "content": digest}]}
        )
    yield from found.values()


def licences_of(package: Distribution | None) -> list[dict[str, Any]]:
    """As it declares them: an expression of SPDX, else its classifiers, else its own words."""
    if package is None:
        return []
    if expression := package.metadata["License-Expression"]:
        return [{"expression": expression, "acknowledgement": "declared"}]
    words = (package.metadata["License"] or "").strip().partition("\n")[0][:_LONGEST]
    if words in _KNOWN:
        return [_licence(words)]
    classifiers = package.metadata.get_all("Classifier") or []
    classes = [one.split(" :: ")[-1] for one in classifiers if one.startswith("License :: ")]
    return [_licence(one) for one in classes or [words] if one]


def _licence(words: str) -> dict[str, Any]:
    named = {"id" if words in _KNOWN else "name": words}
    return {"license": named | {"acknowledgement": "declared"}}


def _component(kind: str, name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:{kind}/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(words: list[str]) -> int:
    """Write it to the file that is named, or to WRITTEN; a dash is the standard output."""
    # As other tools do it: who wants the same file twice names the moment.
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    made = bill(now)
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if words == ["-"]:
        sys.stdout.write(text)
        return 0
    path = Path(words[0]) if words else ROOT / WRITTEN
    path.write_text(text, encoding="utf-8")
    unknown = sum("licenses" not in one for one in made["components"])
    print(
        f"{path.name}: {len(made['components'])} components, {unknown} of them without a licence, "
        "as they are not installed here"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

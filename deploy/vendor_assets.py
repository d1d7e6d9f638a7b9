"""Copy the browser libraries from node_modules into the repository. For maintainers only.

Run `npm install` at the root, then `python deploy/vendor_assets.py`. Versions come from
package.json; each folder gets a VENDOR.md that names version, licence and SHA-256 of every file.
`python deploy/vendor_assets.py --check` compares the files with VENDOR.md and changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = ROOT / "node_modules"
RUNTIME = ROOT / "static" / "vendor"
TESTS = ROOT / "tests" / "browser" / "vendor"
LISTED = re.compile(r"^\| `(?P<file>[^`]+)` \|.*\| `(?P<sha256>[0-9a-f]{64})` \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of one package and where it goes."""

    package: str
    source: str
    folder: Path
    file: str


ASSETS = (
    Asset("htmx.org", "dist/htmx.min.js", RUNTIME, "htmx.min.js"),
    Asset("htmx.org", "LICENSE", RUNTIME, "htmx.LICENSE"),
    Asset("idiomorph", "dist/idiomorph-ext.min.js", RUNTIME, "idiomorph-ext.min.js"),
    Asset("idiomorph", "LICENSE", RUNTIME, "idiomorph.LICENSE"),
    Asset(
        "plotly.js-basic-dist-min",
        "plotly-basic.min.js",
        RUNTIME,
        "plotly-basic.min.js",
    ),
    Asset("plotly.js-basic-dist-min", "LICENSE", RUNTIME, "plotly-basic.LICENSE"),
    Asset("axe-core", "axe.min.js", TESTS, "axe.min.js"),
    Asset("axe-core", "LICENSE", TESTS, "axe.LICENSE"),
)
PLOTLY_CSS = "plotly-basic.css"


def plotly_rules(bundle: str) -> str:
    """The style rules that Plotly would insert by script, which the content policy forbids.

    The bundle keeps them as one object of selector and declarations, with X and Y for its two
    roots. Raises ValueError when a new version keeps them elsewhere.
    """
    table = re.search(r"=\{(\"X,X div\":.*?)\};for\(", bundle, re.DOTALL)
    if table is None:
        raise ValueError("Plotly's table of style rules was not found; look at its addStyleRule.")
    quoted = r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'"
    pairs = re.findall(rf"(?:{quoted}|(\w+)):(?:{quoted})", table[1])
    rules = []
    for key in pairs:
        selector, declarations = key[0] or key[1] or key[2], key[3] or key[4]
        roots = selector.replace("X", ".js-plotly-plot .plotly").replace("Y", ".plotly-notifier")
        rules.append(f"{roots} {{ {declarations} }}\n")
    # Plotly inserts each rule before the one before it.
    return "/* Written by deploy/vendor_assets.py from the bundle. */\n" + "".join(reversed(rules))


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_list(folder: Path, rows: list[tuple[str, str, str, str]]) -> None:
    """Write VENDOR.md: file, package, version, licence, SHA-256."""
    head = (
        "# Files of others\n\nCopied by `deploy/vendor_assets.py`, never edited by hand.\n\n"
        "| file | package | version | licence | SHA-256 |\n| --- | --- | --- | --- | --- |\n"
    )
    lines = [
        f"| `{file}` | {package} | {version} | {licence} | `{sha256(folder / file)}` |\n"
        for file, package, version, licence in rows
    ]
    (folder / "VENDOR.md").write_text(head + "".join(lines), encoding="utf-8")


def vendor() -> None:
    """Copy every asset and write the lists; exits with a sentence when a version differs."""
    wanted = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    rows: dict[Path, list[tuple[str, str, str, str]]] = {RUNTIME: [], TESTS: []}
    for asset in ASSETS:
        home = MODULES / asset.package
        about = json.loads((home / "package.json").read_text(encoding="utf-8"))
        if about["version"] != wanted[asset.package]:
            sys.exit(f"{asset.package} is {about['version']}; run `npm install` first.")
        asset.folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(home / asset.source, asset.folder / asset.file)
        origin = (asset.package, about["version"], about["license"])
        rows[asset.folder].append((asset.file, *origin))
        if asset.file == "plotly-basic.min.js":
            bundle = (home / asset.source).read_text(encoding="utf-8")
            (RUNTIME / PLOTLY_CSS).write_text(plotly_rules(bundle), encoding="utf-8")
            rows[RUNTIME].append((PLOTLY_CSS, *origin))
    for folder, listed in rows.items():
        write_list(folder, listed)


def differences() -> list[str]:
    """What does not agree between the folders and their lists; empty when all is well."""
    found = []
    for folder in (RUNTIME, TESTS):
        listed = dict(LISTED.findall((folder / "VENDOR.md").read_text(encoding="utf-8")))
        present = {path.name for path in folder.iterdir()} - {"VENDOR.md"}
        found += [f"{folder.name}/{file} is not listed" for file in sorted(present - set(listed))]
        for file, digest in sorted(listed.items()):
            if file not in present:
                found.append(f"{folder.name}/{file} is listed but missing")
            elif sha256(folder / file) != digest:
                found.append(f"{folder.name}/{file} was changed")
    return found


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit("\n".join(differences()) or 0)
    vendor()

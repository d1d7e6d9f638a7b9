"""The bill of materials says what the lock holds, no more and no less, in CycloneDX's form."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from email.message import Message
from importlib.metadata import distributions

import pytest

from deploy.packages.sbom import LOCK, ROOT, VENDORED, bill, browser_libraries, licences_of

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
# What a component of CycloneDX 1.6 may have, of what is written here.
_FIELDS = {"type", "bom-ref", "name", "version", "purl", "scope", "hashes", "licenses"}
_FIELDS |= {"properties", "components"}


@pytest.fixture(scope="module")
def made():
    return bill(NOON)


def of_kind(made, kind: str):
    return [one for one in made["components"] if one["purl"].startswith(f"pkg:{kind}/")]


def test_every_locked_package_is_there_with_its_version_and_hashes(made):
    lock = LOCK.read_text()
    parts = re.split(r"(?m)^(?=[a-z0-9-]+==)", lock)[1:]
    wanted = {
        re.match(r"[^\s;]+", part)[0]: set(re.findall(r"sha256:([0-9a-f]{64})", part))
        for part in parts
    }
    found = {
        f"{one['name']}=={one['version']}": {each["content"] for each in one["hashes"]}
        for one in of_kind(made, "pypi")
    }
    assert found == wanted and len(wanted) > 90
    assert sum(map(len, wanted.values())) == lock.count("--hash=sha256:")
    markers = set(re.findall(r"^[a-z0-9-]+==\S+ ; (.+) \\$", lock, re.M))
    told = {each["value"] for one in made["components"] for each in one.get("properties", ())}
    assert told == markers and markers
    optional = [one for one in made["components"] if one["scope"] == "optional"]
    assert all("properties" in one for one in optional) and len(optional) >= len(markers)


def test_what_is_installed_here_has_a_licence(made):
    without = {(one["name"], one["version"]) for one in made["components"] if "licenses" not in one}
    assert not without & {(one.name.lower(), one.version) for one in distributions()}
    assert len(without) < 10


def test_the_libraries_of_pages_are_there_with_their_files(made):
    files = {
        (file["name"], file["hashes"][0]["content"])
        for one in browser_libraries()
        for file in one["components"]
    }
    text = VENDORED.read_text()
    assert files == set(re.findall(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", text, re.M))
    assert {"htmx.org", "idiomorph"} < {one["name"] for one in of_kind(made, "npm")}


def test_its_form_is_that_of_the_standard(made):
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    assert uuid.UUID(made["serialNumber"].removeprefix("urn:uuid:"))
    assert made["metadata"]["timestamp"] == "2026-11-30T12:00:00Z"
    assert made["metadata"]["component"]["name"] == "trainyard"
    names = [one["bom-ref"] for one in made["components"]]
    assert len(names) == len(set(names))
    for one in made["components"]:
        assert one["type"] == "library" and one.keys() <= _FIELDS
        licences = one.get("licenses", [])
        if any("expression" in each for each in licences):
            assert len(licences) == 1, "an expression stands alone"
        for each in licences:
            if named := each.get("license"):
                assert ("id" in named) != ("name" in named) and "" not in named.values()
    assert bill(NOON) == made


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"License-Expression": "MIT AND BSD-3-Clause", "License": "x"}, "MIT AND BSD-3-Clause"),
        ({"License": "MIT"}, "MIT"),
        ({"License": "BSD", "Classifier": "License :: OSI Approved :: BSD License"}, "BSD License"),
        ({"License": "Copyright (c) 2001\n\nRedistribution and use …"}, "Copyright (c) 2001"),
        ({"Name": "nothing"}, None),
    ],
)
def test_a_licence_is_as_it_is_declared(fields, said):
    package = type("Package", (), {"metadata": Message()})()
    for name, value in fields.items():
        package.metadata[name] = value
    found = licences_of(package)
    named = [
        each.get("expression") or each["license"].get("id") or each["license"]["name"]
        for each in found
    ]
    assert named == ([said] if said else [])


def test_it_is_written_by_its_command(tmp_path):
    path = tmp_path / "bill.json"
    words = [sys.executable, str(ROOT / "deploy" / "packages" / "sbom.py"), str(path)]
    env = {"SOURCE_DATE_EPOCH": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
    assert "components" in done.stdout and not done.stderr
    assert json.loads(path.read_text())["metadata"]["timestamp"] == "1970-01-01T00:00:01Z"

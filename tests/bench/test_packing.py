"""`bench packing` on a list small enough to count by hand."""

from __future__ import annotations

import gzip
import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

NODES = (
    "sn,cpu_milli,memory_mib,gpu,model\na,8000,4096,2,T4\nb,8000,4096,2,A10\nc,4000,4096,0,CPU\n"
)
# A half, a whole one for A10, one of either, cpus alone, one for a model that nobody has.
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
p0,1000,512,1,500,,LS
p1,1000,512,1,1000,A10,LS
p2,1000,512,1,1000,A10|T4,LS
p3,4000,512,0,0,,LS
p4,1000,512,1,1000,V100,LS
"""
# Capacity 4 GPUs. Arrived after each: .5 1 2 3 3 4 5 GPUs; the fifth is for V100 and dropped.
ORDERS = "7,pods,0 0 1 1 3 4 2\n7,nodes,2 0 1\n8,pods,2 2 2 2 2\n8,nodes,0 1 2\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(PODS.encode()))
    (tmp_path / "orders.csv").write_text(ORDERS)
    return [
        f"--nodes={tmp_path / 'nodes.csv'}",
        f"--pods={tmp_path / 'pods.csv.gz'}",
        f"--orders={tmp_path / 'orders.csv'}",
    ]


def bench(*words: str) -> dict:
    out = StringIO()
    call_command("bench", "packing", *words, stdout=out)
    return json.loads(out.getvalue().splitlines()[-1])


@pytest.mark.parametrize(
    ("policy", "placed", "used"),
    # Only `tight` puts the halves on an A10, which another pod then lacks.
    [("tight", 5, 50.0), ("pack", 6, 75.0), ("fgd", 6, 75.0)],
)
def test_the_figures_are_those_one_counts(
    files: list[str], policy: str, placed: int, used: float
) -> None:
    figures = bench(*files, "--seeds=7", f"--policy={policy}")
    (seed,) = figures["per_seed"]
    assert (seed["placed"], seed["dropped"]) == (placed, 7 - placed)
    # 4 of 4 GPUs have arrived with the V100 pod, which nobody has. 130 % is never reached.
    assert seed["alloc_at_100"] == used
    assert seed["alloc_at_130"] is None and figures["alloc_at_130"] is None
    assert (figures["policy"], figures["seeds"], figures["nodes"]) == (policy, [7], 3)
    assert figures["decisions_per_s"] > 0


def test_figures_are_means_over_all_seeds_of_the_orders(files: list[str]) -> None:
    figures = bench(*files)
    assert figures["seeds"] == [7, 8]
    assert figures["alloc_at_100"] == (75.0 + 100.0) / 2
    assert (figures["placed"], figures["dropped"]) == (5.0, 1.0)


def test_tiles_are_copies_of_nodes_and_arrivals(files: list[str]) -> None:
    figures = bench(*files, "--seeds=7", "--tile=2")
    assert (figures["nodes"], figures["placed"], figures["dropped"]) == (6, 12.0, 2.0)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (("--seeds=9",), "--seeds 9 is not in the orders; they hold 7, 8"),
        (("--seeds=x",), "--seeds must be whole numbers"),
        (("--tile=0",), "--tile must be 1 to 64"),
        (("--nodes=none.csv",), "none.csv cannot be read"),
    ],
)
def test_wrong_words_are_refused(files: list[str], change: tuple[str], names: str) -> None:
    with pytest.raises(CommandError, match=names):
        bench(*files, *change)


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("nodes.csv", "a,b\n1,2\n", "no column cpu_milli"),
        ("nodes.csv", NODES.replace("8000", "8 cores"), "nodes.csv: .*write whole numbers"),
        ("nodes.csv", NODES.replace("8000", "-8"), "cannot be: nodes.cpus_total"),
        ("orders.csv", "7 pods\n", "orders.csv line 1 is not"),
        ("orders.csv", "7,pods,0 9\n7,nodes,0 1 2\n", "rows 0 to 4"),
        ("orders.csv", "7,pods,0\n7,nodes,0 1 1\n", "must be 0 to 2, each once"),
    ],
)
def test_broken_files_are_refused_by_name(
    files: list[str], tmp_path: Path, name: str, text: str, names: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CommandError, match=names):
        bench(*files)

"""Scripts for sbatch: every option has its meaning or its remark, and none goes in silence."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scheduler.spec import parse_spec
from scheduler.spec.slurm import convert, is_batch_script
from scheduler.spec.slurm.meaning import MEANINGS
from scheduler.spec.slurm.names import KNOWN, LEFT_OUT, SHORT, TAKEN

H100 = "NVIDIA H100 80GB HBM3"
MODELS = (H100, "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB")


def read(*options: str, body: str = "python train.py\n"):
    lines = "".join(f"#SBATCH {option}\n" for option in options)
    return convert(f"#!/bin/bash\n{lines}{body}", models=MODELS)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--job-name=resnet"], {"name": "resnet"}),
        (["-J resnet # mine"], {"name": "resnet"}),
        (["--account vision/digits"], {"project": "vision/digits"}),
        (["-p GPU_long,short"], {"pool": "gpu-long", "other_pools": ["short"]}),
        (["-p a,b,a"], {"pool": "a", "other_pools": ["b"]}),
        (["-p a,b", "--partition=c"], {"pool": "c"}),
        (["--qos=urgent"], {"tier": "urgent"}),
        (["-t 90"], {"time_limit": "1h30m"}),
        (["-t 90:30"], {"time_limit": "1h30m30s"}),
        (["-t 2:00:00"], {"time_limit": "2h"}),
        (["-t 1-12"], {"time_limit": "1d12h"}),
        (["-t 1-12:30"], {"time_limit": "1d12h30m"}),
        (["-t 0-00:00:45"], {"time_limit": "45s"}),
        (["-N4"], {"nodes": 4}),
        (["--nodes=2-8"], {"nodes": "2..8"}),
        (["-N 2,4,8"], {"nodes": "2..8", "node_sizes": [2, 4, 8]}),
        (["-N2", "-n 16", "-c 4"], {"cpus": 32}),
        (["--ntasks-per-node=4", "--cpus-per-task=6"], {"cpus": 24}),
        (["--tasks-per-node=2", "-c6"], {"cpus": 12}),
        (["--gres=gpu:2", "--cpus-per-gpu=8"], {"gpus_per_node": 2, "cpus": 16}),
        (["--gres=gpu:h100:8"], {"gpus_per_node": 8, "gpu_model": H100}),
        (["--gres=gpu"], {"gpus_per_node": 1}),
        (["-N 2", "-G 16"], {"gpus_per_node": 8}),
        (["-N 2", "--gpus=h100:3"], {"gpus_per_node": 2, "gpu_model": H100}),
        (["--gpus-per-node=4"], {"gpus_per_node": 4}),
        (["-n 16", "--ntasks-per-node=8", "--gpus-per-task=1"], {"nodes": 2, "gpus_per_node": 8}),
        (["-G 8", "--gpus-per-node=4"], {"nodes": 2, "gpus_per_node": 4}),
        (["-G 8", "--gpus-per-task=1"], {"gpus_per_node": 8, "processes": "gpu"}),
        (["-G 8", "-N 2-4"], {"nodes": "2..4", "gpus_per_node": 4}),
        (["-n 8", "-N 2-4", "-c 2"], {"nodes": "2..4", "cpus": 8}),
        (["--requeue", "--qos=production"], {"tier": "production", "preemptible": None}),
        (["-n 4", "--gpus-per-task=1"], {"gpus_per_node": 4, "processes": "gpu"}),
        (["--ntasks-per-gpu=1", "--gres=gpu:2"], {"processes": "gpu"}),
        (["--mem=64G"], {"memory": "64GiB"}),
        (["--mem=2000"], {"memory": "2000MiB"}),
        (["-c 8", "--mem-per-cpu=4G"], {"memory": "32GiB"}),
        (["--gres=gpu:4", "--mem-per-gpu=100G"], {"memory": "400GiB"}),
        (["--tmp=200G"], {"scratch": "200GiB"}),
        (["--constraint=network=ib"], {"constraints": ["network=ib"]}),
        (["-x n[03-05],m1"], {"exclude_nodes": ["n03", "n04", "n05", "m1"]}),
        (["-L solver:2,viewer@db"], {"licences": {"solver": 2, "viewer": 1}}),
        (["--exclusive"], {"exclusive": True}),
        (["-a 0-99%10"], {"array": "0-99%10"}),
        (["-d afterok:12:13,singleton"], {"depends_on": ["afterok:12:13", "singleton"]}),
        (["-d afterok:4_3:12"], {"depends_on": ["afterok:4_3:12"]}),
        (["--dependency=afterany:set=4"], {"depends_on": ["afterany:set=4"]}),
        (
            ["-d aftercorr:7:8", "-a 0-1"],
            {"depends_on": ["aftercorr:set=7:set=8"], "array": "0-1"},
        ),
        (["--begin=2026-12-31T08:00:00"], {"begin": "2026-12-31T08:00:00"}),
        (["-H"], {"hold": True}),
        (["--requeue"], {"preemptible": True}),
        (["--no-requeue"], {"preemptible": False}),
        (["-D /data/vision"], {"working_dir": "/data/vision"}),
        (["--export=NONE,LR=0.1"], {"env": {"LR": "0.1"}}),
        (["--signal=B:USR1@90"], {"stop": {"signal": "SIGUSR1", "grace": "1m30s"}}),
        (["--reservation=exam-week"], {"booking": "exam-week"}),
        (['--comment="first try"'], {"description": "first try"}),
        (["--wckey=llm3"], {"labels": {"wckey": "llm3"}}),
        (["-N2", "--switches=1@10:00"], {"topology": "rack:preferred"}),
        (["--job-na=short"], {"name": "short"}),
    ],
)
def test_an_option_means_the_same_here(options, expected):
    found = read(*options)
    for name, value in expected.items():
        assert found.document.get(name) == value, (found.document, found.remarks)
    spec = parse_spec({"project": "vision/digits", **found.document})
    assert spec.script == "#!/bin/bash\npython train.py\n"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--mail-type=SOMETIMES", "notify"),
        ("-w n7", "labels"),
        ("--gres=shard:4", "no GPUs"),
        ("-C 'a100&nvlink'", "labels with values"),
        ("-t UNLIMITED", "no limit"),
        ("-t soon", "not a time"),
        ("--mem=0", "say how much"),
        ("-N many", "not a number"),
        ("-c 1.5", "whole number"),
        ("--account=phys", "project that pays"),
        ("--qos=long", "tiers"),
        ("-d aftercorr:7_3", "not one of"),
        ("-d afterok:7", "all of array 4 is set=4"),
        ("-d afterok:4_[3-5]", "not one of"),
        ("-d 'afterok:1?afterany:2'", "not one of"),
        ("--begin=now+1fortnight", "is not a time that sbatch takes"),
        ("--deadline=25:00", "is not a time that sbatch takes"),
        ("--exclusive=user", "shares"),
        ("--signal=KILL@60", "signal"),
        ("--switches=3", "several"),
        ("--no-such-thing=1", "no option"),
        ("-Z", "no option"),
        ("--n=1", "may be"),
        ("--time", "needs a value"),
        ("stray", "no option"),
        ("--job-name='open", "quote"),
        ("--gres=gpu:v100:2", "choose one"),
        ("--gres=gpu:a100:2", "choose one"),
        ("-x n[1-9999]", "more than"),
        ("--overcommit", "never given twice"),
    ],
)
def test_what_has_no_meaning_is_said(option, words):
    found = read(option)
    said = [one for one in found.remarks if words in one.words]
    assert said and said[0].option, found.remarks
    parse_spec({"project": "vision/digits", **found.document})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-N 2"], "started on each node"),
        (["-N 2-4"], "started on each node"),
        (["-G 8", "-N 2-4"], "more on more nodes"),
        (["-G 6", "--gpus-per-node=4"], "do not spread evenly"),
        (["--qos=production", "--requeue"], "preemptible: true"),
    ],
)
def test_what_is_different_from_sbatch_is_said(options, words):
    found = read(*options)
    said = [one for one in found.remarks if words in one.words]
    assert [one.became for one in said] == ["changed"], found.remarks


def test_a_script_that_is_started_once_anyway_or_by_srun_has_no_word_of_nodes():
    assert not [one for one in read("-N 1").remarks if "each node" in one.words]
    said = read("-N 2", body="date\nsrun python train.py\n").remarks
    assert [one.option for one in said if "each node" in one.words] == ["srun"]
    said = read("-N 2", body="# srun is not used\ntorchrun train.py\n").remarks
    assert [one.option for one in said if "each node" in one.words] == ["nodes"]


def test_every_known_option_is_answered_once():
    assert set(MEANINGS) == set(TAKEN)
    assert not set(TAKEN) & set(LEFT_OUT)
    assert set(SHORT.values()) <= set(KNOWN)
    for name, takes in KNOWN.items():
        found = read(f"--{name}" if takes == "never" else f"--{name}=1")
        assert [one for one in found.remarks if one.line == 2], name


def test_directives_end_with_the_first_command():
    found = convert("#!/bin/sh\n# hello\n\n#SBATCH -c2\necho a\n#SBATCH -t 5\necho b\n")
    assert found.document["cpus"] == 2
    assert "time_limit" not in found.document
    assert [(one.line, one.became) for one in found.remarks] == [(4, "taken"), (6, "lost")]
    assert "SBATCH" not in found.document["script"]


def test_what_the_script_expects_of_slurm_is_named_once():
    body = "module load cuda\nsrun python a.py $SLURM_PROCID ${SLURM_PROCID} $SLURM_CPUS_ON_NODE\n"
    said = {one.option: one.words for one in read(body=body).remarks}
    assert set(said) == {"module", "srun", "$SLURM_PROCID", "$SLURM_CPUS_ON_NODE"}
    assert "RANK" in said["$SLURM_PROCID"]


def test_hostile_scripts_are_read_in_bounded_time():
    noise = "#SBATCH " + "-" * 5000 + "\n#SBATCH --x=" + "9" * 5000 + "\n"
    found = convert(noise * 400 + "\x00\ud800")
    assert len(found.remarks) == 200


def test_other_texts_are_no_batch_scripts():
    assert is_batch_script("#!/bin/sh\n#SBATCH\n")
    assert not is_batch_script("name: x\n#SBATCHES\n ## SBATCH\n")


# A Friday.
NOW = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("now", "2026-11-20T12:00:30Z"),
        ("now+60", "2026-11-20T12:01:30Z"),
        ("now+2hours", "2026-11-20T14:00:30Z"),
        ("now+1hour", "2026-11-20T13:00:30Z"),
        ("now+3days", "2026-11-23T12:00:30Z"),
        ("now+1week", "2026-11-27T12:00:30Z"),
        ("today", "2026-11-20T12:00:30Z"),
        ("tomorrow", "2026-11-21T00:00:00Z"),
        ("midnight", "2026-11-21T00:00:00Z"),
        ("noon", "2026-11-21T12:00:00Z"),
        ("teatime", "2026-11-20T16:00:00Z"),
        ("16:30", "2026-11-20T16:30:00Z"),
        ("11:59:59", "2026-11-21T11:59:59Z"),
        ("4:30 PM", "2026-11-20T16:30:00Z"),
        ("12:05am", "2026-11-21T00:05:00Z"),
        ("1231", "2026-12-31T00:00:00Z"),
        ("12/31/27", "2027-12-31T00:00:00Z"),
        ("01.02", "2027-01-02T00:00:00Z"),
        ("0229", "2028-02-29T00:00:00Z"),
        ("12/31-08:15", "2026-12-31T08:15:00Z"),
        ("2026-12-31", "2026-12-31"),
        ("2026-12-31T08:00", "2026-12-31T08:00"),
    ],
)
def test_times_mean_what_they_mean_to_sbatch(written, read_as):
    script = f"#!/bin/sh\n#SBATCH --begin='{written}'\n#SBATCH --deadline='{written}'\nhostname\n"
    found = convert(script, now=NOW)
    assert found.document["begin"] == found.document["finish_by"] == read_as
    assert found.document["finish_by_policy"] == "cancel"
    assert not found.lost and "cancelled if it is late" in found.remarks[1].words


@pytest.mark.parametrize("written", ["now+", "13:00pm", "1332", "02/30/27", "soon", "12/31-8"])
def test_what_is_no_time_is_lost_with_a_word(written):
    found = convert(f"#!/bin/sh\n#SBATCH --deadline='{written}'\nhostname\n", now=NOW)
    assert "finish_by" not in found.document
    assert "is not a time that sbatch takes" in found.lost[0].words

"""A script for sbatch to a job of ours, with a word about each of its options. Pure."""

from scheduler.spec.slurm.converting import Converted, Remark, convert
from scheduler.spec.slurm.reading import is_batch_script

__all__ = ["Converted", "Remark", "convert", "is_batch_script"]

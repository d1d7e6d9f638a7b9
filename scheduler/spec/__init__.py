"""The job spec: one schema behind form, YAML, JSON, REST and command line. Pure."""

from scheduler.spec.document import read_document
from scheduler.spec.problems import SpecInvalid, SpecProblem
from scheduler.spec.schema import JobSpec, parse_spec

__all__ = ["JobSpec", "SpecInvalid", "SpecProblem", "parse_spec", "read_document"]

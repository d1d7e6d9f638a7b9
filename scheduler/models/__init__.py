"""The tables of *what runs where*, in the order of a job's life."""

from scheduler.models.attempts import Allocation, Attempt, LogChunk, Placement
from scheduler.models.cluster import Device, Node, NodeToken, Pool
from scheduler.models.history import CycleRecord, JobEvent, NodeEvent, SchedulerLease, StartForecast
from scheduler.models.jobs import Job, SubmitKey
from scheduler.models.queues import Queue
from scheduler.models.telemetry import DeviceSample, HostSample
from scheduler.models.usage import UsageEntry

__all__ = [
    "Allocation",
    "Attempt",
    "CycleRecord",
    "Device",
    "DeviceSample",
    "HostSample",
    "Job",
    "JobEvent",
    "LogChunk",
    "Node",
    "NodeEvent",
    "NodeToken",
    "Placement",
    "Pool",
    "Queue",
    "SchedulerLease",
    "StartForecast",
    "SubmitKey",
    "UsageEntry",
]

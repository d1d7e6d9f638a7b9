"""Whose fault an end was."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class FailureClass(StrEnum):
    """Whose fault an end was; drives retries, refunds and what happens to the node."""

    NONE = "none"
    USER_CODE = "user_code"
    USER_RESOURCE = "user_resource"
    USER_CONFIG = "user_config"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    INFRA_GPU = "infra_gpu"
    INFRA_NODE = "infra_node"
    INFRA_NETWORK = "infra_network"
    INFRA_STORAGE = "infra_storage"
    HANG = "hang"
    PLATFORM = "platform"
    UNKNOWN = "unknown"


# What people read for a class: its name, and whose it is to mend.
FAILURE_WORDS: Mapping[FailureClass, tuple[str, str]] = {
    FailureClass.NONE: ("no failure", "nobody"),
    FailureClass.USER_CODE: ("program error", "the program"),
    FailureClass.USER_RESOURCE: ("not enough resources", "the job's request"),
    FailureClass.USER_CONFIG: ("wrong set-up", "the job's set-up"),
    FailureClass.TIMEOUT: ("time limit", "the job's time limit"),
    FailureClass.PREEMPTED: ("preempted", "the queue's rules"),
    FailureClass.INFRA_GPU: ("GPU failure", "a GPU"),
    FailureClass.INFRA_NODE: ("node failure", "the node"),
    FailureClass.INFRA_NETWORK: ("network failure", "the network"),
    FailureClass.INFRA_STORAGE: ("storage failure", "the storage"),
    FailureClass.HANG: ("hang", "not decided"),
    FailureClass.PLATFORM: ("platform failure", "Trainyard itself"),
    FailureClass.UNKNOWN: ("not known", "not decided"),
}
INFRASTRUCTURE = frozenset(
    {
        FailureClass.INFRA_GPU,
        FailureClass.INFRA_NODE,
        FailureClass.INFRA_NETWORK,
        FailureClass.INFRA_STORAGE,
        FailureClass.PLATFORM,
    }
)

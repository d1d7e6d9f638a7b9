"""The calls of nodes, below `/api/agent/v1/`."""

from __future__ import annotations

from django.urls import path

from portal.api.nodes import agent, syncing

# The one that each node always makes comes first: the others are looked for after it.
urlpatterns = [
    path("sync", syncing.sync, name="agent_sync"),
    path("attempts/<int:fence>/log", agent.log, name="agent_log"),
    path("attempts/<int:fence>/secrets", agent.secrets, name="agent_secrets"),
    path("attempts/<int:fence>/outputs", agent.outputs, name="agent_outputs"),
    path("attempts/<int:fence>/outputs/<int:number>", agent.output_part, name="agent_output_part"),
    path("enrol", agent.enrol, name="agent_enrol"),
]

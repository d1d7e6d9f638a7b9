"""`/api/…`: version 1 for programs, three calls for nodes, and the page that explains them."""

from __future__ import annotations

from django.urls import include, path, re_path

from portal.api.docs import docs_page
from portal.api.errors import no_such_route
from portal.api.nodes import agent, syncing

urlpatterns = [
    path("v1/", include(("portal.api.v1.urls", "api"))),
    path("agent/v1/enrol", agent.enrol, name="agent_enrol"),
    path("agent/v1/sync", syncing.sync, name="agent_sync"),
    path("agent/v1/attempts/<int:fence>/log", agent.log, name="agent_log"),
    path("agent/v1/attempts/<int:fence>/secrets", agent.secrets, name="agent_secrets"),
    path("agent/v1/attempts/<int:fence>/outputs", agent.outputs, name="agent_outputs"),
    path(
        "agent/v1/attempts/<int:fence>/outputs/<int:number>",
        agent.output_part,
        name="agent_output_part",
    ),
    path("docs/", docs_page, name="api_docs"),
    re_path(r"^.*$", no_such_route),
]

"""`/api/v1/pools/…` and `/api/v1/nodes/…`, one line for each address."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.v1 import cluster
from portal.api.v1.organisation import node_tokens

cluster_urls: list[URLPattern] = [
    path("pools/", cluster.PoolList.as_view(), name="pools"),
    path("pools/<str:name>/isolation/", cluster.PoolIsolation.as_view(), name="pool_isolation"),
    path("nodes/", cluster.NodeList.as_view(), name="nodes"),
    path("nodes/tokens/", node_tokens.NodeTokens.as_view(), name="node_tokens"),
    path("nodes/tokens/<int:pk>/", node_tokens.NodeTokenByNumber.as_view(), name="node_token"),
    path("nodes/<str:name>/", cluster.NodeByName.as_view(), name="node"),
    path("nodes/<str:name>/gpus/<int:index>/", cluster.NodeDevice.as_view(), name="node_device"),
    path("nodes/<str:name>/drain/", cluster.NodeDrain.as_view(), name="node_drain"),
    path("nodes/<str:name>/resume/", cluster.NodeResume.as_view(), name="node_resume"),
    path("nodes/<str:name>/quarantine/", cluster.NodeQuarantine.as_view(), name="node_quarantine"),
    path("nodes/<str:name>/retire/", cluster.NodeRetire.as_view(), name="node_retire"),
    path("nodes/<str:name>/renew-token/", cluster.NodeToken.as_view(), name="node_renew_token"),
    path("nodes/<str:name>/off/", cluster.NodeOff.as_view(), name="node_off"),
    path("nodes/<str:name>/place/", cluster.NodePlace.as_view(), name="node_place"),
    path("nodes/<str:name>/labels/", cluster.NodeLabels.as_view(), name="node_labels"),
]

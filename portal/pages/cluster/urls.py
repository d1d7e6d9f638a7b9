"""The addresses below `/cluster/`."""

from django.urls import URLPattern, URLResolver, include, path

from portal.pages import enrol, nodes
from portal.pages.cluster import pools, simulator
from portal.pages.cluster.gpu_map import cluster_map
from portal.pages.cluster.power import node_off
from portal.pages.cluster.quarantine import node_quarantine
from portal.pages.cluster.renewing import node_renew_token
from portal.pages.cluster.room import cluster_room
from portal.pages.cluster.several import node_several
from portal.pages.cluster.timeline import cluster_timeline
from portal.pages.idling.rules import pool_idle

pool_urls = [
    path("<slug:name>/", pools.pool_detail, name="detail"),
    path("<slug:name>/policy/", pools.pool_policy, name="policy"),
    path("<slug:name>/idle/", pool_idle, name="idle"),
]

simulator_urls = [
    path("", simulator.scenario_list, name="list"),
    path("<int:pk>/", simulator.scenario_detail, name="detail"),
    path("<int:pk>/apply/", simulator.scenario_apply, name="apply"),
    path("<int:pk>/forget/", simulator.scenario_forget, name="forget"),
]

node_urls = [
    path("nodes/", nodes.node_list, name="list"),
    path("enrol/", enrol.node_enrol, name="enrol"),
    path("enrol/<int:pk>/revoke/", enrol.token_revoke, name="token_revoke"),
    path("several/", node_several, name="several"),
    path("nodes/<str:name>/", nodes.node_detail, name="detail"),
    path("nodes/<str:name>/series/", nodes.node_series_points, name="series"),
    path("nodes/<str:name>/drain/", nodes.node_drain, name="drain"),
    path("nodes/<str:name>/resume/", nodes.node_resume, name="resume"),
    path("nodes/<str:name>/quarantine/", node_quarantine, name="quarantine"),
    path("nodes/<str:name>/gpus/<int:index>/", nodes.node_device, name="device"),
    path("nodes/<str:name>/retire/", nodes.node_retire, name="retire"),
    path("nodes/<str:name>/renew-token/", node_renew_token, name="renew_token"),
    path("nodes/<str:name>/off/", node_off, name="off"),
    path("nodes/<str:name>/place/", nodes.node_place, name="place"),
]

cluster_urls: list[URLPattern | URLResolver] = [
    path("", cluster_map, name="cluster_map"),
    path("timeline/", cluster_timeline, name="cluster_timeline"),
    path("free/", cluster_room, name="cluster_room"),
    path("pools/", include((pool_urls, "pools"))),
    path("simulator/", include((simulator_urls, "simulator"))),
    path("", include((node_urls, "nodes"))),
]

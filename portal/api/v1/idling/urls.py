"""What is asked and told of GPUs that do little, one line for each address."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.v1.idling import keeping, rules

idle_urls: list[URLPattern] = [
    path("jobs/<int:pk>/keep/", keeping.JobKeep.as_view(), name="job_keep"),
    path(
        "projects/<slug:team>/<slug:project>/idle-rule/",
        rules.ProjectIdleRule.as_view(),
        name="project_idle_rule",
    ),
    path(
        "projects/<slug:team>/<slug:project>/idle-rule/trial/",
        rules.ProjectIdleTrial.as_view(),
        name="project_idle_trial",
    ),
    path("pools/<str:name>/idle-rule/", rules.PoolIdleRule.as_view(), name="pool_idle_rule"),
    path(
        "pools/<str:name>/idle-rule/trial/", rules.PoolIdleTrial.as_view(), name="pool_idle_trial"
    ),
]

"""For monitors: outside `/api/`, because their paths are a convention."""

from __future__ import annotations

from django.urls import path

from portal.api import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.Metrics.as_view(), name="metrics"),
]

"""`/api/…`: version 1 for programs, three calls for nodes, and the page that explains them."""

from __future__ import annotations

from django.urls import include, path, re_path

from portal.api.docs import docs_page
from portal.api.errors import no_such_route

urlpatterns = [
    path("v1/", include(("portal.api.v1.urls", "api"))),
    path("agent/v1/", include("portal.api.nodes.urls")),
    path("docs/", docs_page, name="api_docs"),
    re_path(r"^.*$", no_such_route),
]

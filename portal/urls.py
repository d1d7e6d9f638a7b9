"""Three includes: pages for people, the API for programs, health for operators."""

from django.urls import include, path

urlpatterns = [
    path("", include("portal.pages.urls")),
    path("api/", include("portal.api.urls")),
    path("", include("portal.api.health_urls")),
]

handler400 = "portal.pages.errors.bad_request"
handler403 = "portal.pages.errors.forbidden"
# allauth looks for it here.
handler429 = "portal.pages.errors.account_too_fast"
handler404 = "portal.pages.errors.not_found"
handler500 = "portal.pages.errors.server_error"

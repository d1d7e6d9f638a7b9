"""Who calls the API: a signed-in browser or a program with a token. A token never exceeds its user.

A session must send the CSRF token with every unsafe method. A token must hold the scope of the
operation; an operation whose scope is None is for people only. A token with bounds is good from its
networks and within its project alone; sent from elsewhere it is answered as one that never was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.adapter import password_is_fresh
from accounts.models import ApiToken, User
from accounts.services import authenticate_token
from portal.api.bounds import AFTER_A_PASSWORD, WITHIN_A_PROJECT
from portal.origins import address_of

if TYPE_CHECKING:  # the framework imports this module while it is being imported itself
    from drf_spectacular.openapi import AutoSchema
    from rest_framework.views import APIView

# An operation that any signed-in caller may use, whatever the token's scopes.
ANY_SCOPE = "any"


class TokenOrSession(SessionAuthentication):
    """`Authorization: Bearer ty_…` when sent, else the session cookie with CSRF."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken | None] | None:
        """The caller, or None; raises AuthenticationFailed for a token that is not good."""
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header:
            found: tuple[User, None] | None = super().authenticate(request)
            return found
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise AuthenticationFailed("Send the header as: Authorization: Bearer <API token>.")
        secret = secret.strip()
        address = address_of(request)
        token = authenticate_token(secret, address=address) if _is_plain(secret) else None
        if token is None or not token.user.is_active:
            raise AuthenticationFailed(
                "The API token is unknown, expired or revoked. Make a new one under "
                "Settings, API tokens."
            )
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="trainyard"'


def _is_plain(secret: str) -> bool:
    return len(secret) <= 256 and secret.isascii() and secret.isprintable()


class IsSignedInWithScope(BasePermission):
    """Refuses anonymous callers (401) and tokens without the operation's scope (403)."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user or not request.user.is_authenticated:
            raise NotAuthenticated(
                "Sign in, or send an API token: Authorization: Bearer <API token>."
            )
        handler = getattr(view, (request.method or "").lower(), None)
        scope = getattr(handler, "scope", ANY_SCOPE)
        if not isinstance(request.auth, ApiToken):
            _require_password(request, handler)
            return True
        _require_within(request.auth, handler)
        if scope == ANY_SCOPE:
            return True
        if scope is None:
            raise PermissionDenied(
                "This is for people who are signed in, not for API tokens.", code="sign_in_needed"
            )
        if scope not in request.auth.scopes:
            raise PermissionDenied(
                f"The API token lacks the scope {scope}. Make one that has it.",
                code="scope_missing",
            )
        return True


def _require_within(token: ApiToken, handler: object) -> None:
    """A method that is not offered has no handler and is refused elsewhere."""
    is_within = getattr(handler, "operation_id", "") in WITHIN_A_PROJECT
    if token.project is not None and handler is not None and not is_within:
        raise PermissionDenied(
            f"The API token is bound to the project {token.project.path}, and this reaches beyond "
            "it. Use a token without that bound.",
            code="token_bound",
        )


def _require_password(request: Request, handler: object) -> None:
    is_asked = getattr(handler, "operation_id", "") in AFTER_A_PASSWORD
    if is_asked and not password_is_fresh(request._request):
        raise PermissionDenied(
            "It is some time since you signed in. Show again who you are at "
            "/accounts/reauthenticate/, then send this again.",
            code="password_needed",
        )


class TokenOrSessionScheme(OpenApiAuthenticationExtension):
    """How the schema describes the two ways in."""

    target_class = "portal.api.auth.TokenOrSession"
    name = ["bearer", "session"]

    def get_security_definition(self, auto_schema: AutoSchema) -> list[dict[str, Any]]:
        return [
            {"type": "http", "scheme": "bearer", "description": "An API token."},
            {"type": "apiKey", "in": "cookie", "name": "sessionid"},
        ]

"""The identity provider of the settings, in allauth's words; what it answers is looked at twice.

allauth speaks OpenID Connect. Here it is told where the provider is, and held to what it takes for
granted elsewhere: the signature of every token is verified, the issuer is the one of the settings,
both accounts of a person (token and userinfo) are one, and no answer is an error of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import jwt
import requests
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import reverse

from accounts.errors import DomainError
from accounts.services.identities.claims import Claims, subject_of
from accounts.services.identities.entering import told_of

_Answer = TypeVar("_Answer")
_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
# Clocks differ by so much.
_LEEWAY_S = 30
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


def app_of_settings() -> SocialApp:
    """The provider as allauth keeps one; it is in no table. Its number is the issuer, so that an
    account there is issuer and subject."""
    return SocialApp(
        provider=OpenIDConnectProvider.id,
        provider_id=settings.OIDC_ISSUER,
        name=settings.OIDC_NAME,
        client_id=settings.OIDC_CLIENT_ID,
        secret=settings.OIDC_CLIENT_SECRET,
        settings={
            "server_url": settings.OIDC_ISSUER.rstrip("/"),
            "oauth_pkce_enabled": True,
            "scope": settings.OIDC_SCOPES,
        },
    )


def _read(ask: Callable[[], _Answer]) -> _Answer:
    """What an answer of another form breaks is the answer's fault."""
    try:
        return ask()
    except requests.RequestException:
        raise
    except DomainError as refused:
        raise OAuth2Error(refused.detail) from refused
    except jwt.PyJWTError as broken:
        raise OAuth2Error(f"{type(broken).__name__}: {broken}") from broken
    except (
        ArithmeticError,
        AttributeError,
        ImproperlyConfigured,
        LookupError,
        TypeError,
        ValueError,
    ) as broken:
        raise OAuth2Error(f"an answer of another form: {broken!r:.200}") from broken


class Endpoints(OpenIDConnectOAuth2Adapter):
    """allauth's calls to the provider."""

    @property
    def openid_config(self) -> dict[str, Any]:
        """What the provider tells of itself. Raises OAuth2Error where it is not the one of the
        settings, or names no addresses."""
        if not hasattr(self, "_looked_at"):
            self._looked_at = _read(self._discovered)
        return self._looked_at

    def _discovered(self) -> dict[str, Any]:
        told: dict[str, Any] = OpenIDConnectOAuth2Adapter.openid_config.fget(self)
        if told["issuer"] != settings.OIDC_ISSUER:
            raise OAuth2Error(f"it calls itself {told['issuer']!r:.200}")
        scheme = settings.OIDC_ISSUER.partition(":")[0]
        for name in _ENDPOINTS:
            there = str(told[name])
            is_plain = there.isascii() and there.isprintable() and urlsplit(there).hostname
            if not is_plain or there.partition(":")[0] not in ("https", scheme):
                raise OAuth2Error(f"its {name} is no address that begins with https://")
        return told

    @property
    def basic_auth(self) -> bool:
        """As the provider likes the secret; in the header where it says nothing, as is the rule."""
        liked = self.openid_config.get("token_endpoint_auth_methods_supported")
        return not isinstance(liked, list) or "client_secret_post" not in liked

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        """Below the portal's own address, never by the host that was asked."""
        return f"{settings.PUBLIC_URL}{reverse('account_elsewhere_back')}"

    def get_access_token_data(self, *args: Any, **kwargs: Any) -> Any:
        """As allauth's."""
        return _read(lambda: super(Endpoints, self).get_access_token_data(*args, **kwargs))

    def parse_token(self, data: Any) -> SocialToken:
        """As allauth's; nothing of it is kept."""
        return _read(lambda: super(Endpoints, self).parse_token(data))

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any
    ) -> SocialLogin:
        """Who it is, by the token and what the provider adds to it. Raises OAuth2Error."""
        return _read(lambda: self._told(request, app, token, kwargs["response"]))

    def _told(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, response: Any
    ) -> SocialLogin:
        signed = self._decode_id_token(app, response["id_token"])
        more = {}
        if self.openid_config.get("userinfo_endpoint"):
            more = self._fetch_user_info(token.token)
            if more.get("sub") != signed["sub"]:
                raise OAuth2Error("token and userinfo are of two people")
        return self.get_provider().sociallogin_from_response(request, {**more, "id": signed})

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        """Its content, after its signature, issuer, audience and times."""
        header = jwt.get_unverified_header(id_token)
        algorithm = header.get("alg")
        if algorithm not in _ALGORITHMS:
            raise OAuth2Error(f"signed with {algorithm!r:.40}")
        told: dict[str, Any] = jwt.decode(
            id_token,
            self._key(header),
            algorithms=[algorithm],
            issuer=settings.OIDC_ISSUER,
            audience=app.client_id,
            leeway=_LEEWAY_S,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
        if told.get("azp", app.client_id) != app.client_id:
            raise OAuth2Error("a token that was made for somebody else")
        return told

    def _key(self, header: dict[str, Any]) -> Any:
        """The one that signed it by its name; where tokens name none, the only one there is."""
        with get_adapter().get_requests_session() as calls:
            answer = calls.get(self.openid_config["jwks_uri"])
        answer.raise_for_status()
        keys = jwt.PyJWKSet.from_dict(answer.json()).keys
        signing = [key for key in keys if key.public_key_use in (None, "sig")]
        fit = [key for key in signing if header.get("kid") in (None, key.key_id)]
        if len(fit) != 1:
            raise OAuth2Error(f"{len(fit)} of its keys are {header.get('kid')!r:.80}")
        return fit[0].key


class Provider(OpenIDConnectProvider):
    """allauth's, which takes nothing from what it is told but who it is."""

    oauth2_adapter_class = Endpoints

    def get_login_url(self, request: HttpRequest, **kwargs: Any) -> str:
        """Where one begins."""
        return reverse("account_elsewhere")

    def get_callback_url(self) -> str:
        """Where the provider sends people back to."""
        return reverse("account_elsewhere_back")

    def extract_uid(self, data: dict[str, Any]) -> str:
        """The subject."""
        return subject_of(data["id"])

    def extract_extra_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """What is kept of it."""
        return told_of(self.claims(data))

    def extract_common_fields(self, data: dict[str, Any]) -> dict[str, Any]:
        """Nothing: who is new is made by our own rules."""
        return {}

    def extract_email_addresses(self, data: dict[str, Any]) -> list[Any]:
        """None: no address says who somebody is."""
        return []

    def sociallogin_from_response(
        self, request: HttpRequest, response: dict[str, Any]
    ) -> SocialLogin:
        """As allauth's, with the claims as ours and when the provider saw the person."""
        login = super().sociallogin_from_response(request, response)
        login.claims = self.claims(response)
        seen = response["id"].get("auth_time")
        login.seen_at = seen if isinstance(seen, int | float) else None
        return login

    def claims(self, data: dict[str, Any]) -> Claims:
        """What both answers say, the token's word first; cleaned."""
        signed = data["id"]
        return Claims.of(
            settings.OIDC_ISSUER,
            {**data, **signed},
            groups_claim=settings.OIDC_GROUPS_CLAIM,
            trusts_mail=settings.OIDC_TRUSTS_MAIL,
        )

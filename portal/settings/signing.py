"""Signing in elsewhere: an identity provider of the organisation, by OpenID Connect."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from portal.settings import env

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
# What is kept of an account elsewhere begins with the issuer.
_LONGEST = 200


def _issuer() -> str:
    """The address that the provider names itself by; empty: nobody signs in elsewhere."""
    issuer = env.text("TRAINYARD_OIDC_ISSUER").strip()
    if not issuer:
        return ""
    parts = urlsplit(issuer)
    is_here = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not (parts.hostname and (parts.scheme == "https" or is_here)):
        raise ImproperlyConfigured(
            "TRAINYARD_OIDC_ISSUER must be an address that begins with https:// (http:// on this "
            f"machine alone, for a try), not {issuer!r}"
        )
    if parts.query or parts.fragment or parts.username or len(issuer) > _LONGEST:
        raise ImproperlyConfigured(
            f"TRAINYARD_OIDC_ISSUER must be a plain address of at most {_LONGEST} characters, "
            "without ?, # and user names: what the provider's /.well-known/openid-configuration "
            "calls issuer"
        )
    return issuer


def _complete(issuer: str, client: str, secret: str) -> None:
    """One without the others is a slip."""
    given = {"ISSUER": issuer, "CLIENT_ID": client, "CLIENT_SECRET": secret}
    missing = [f"TRAINYARD_OIDC_{name}" for name, value in given.items() if not value]
    if missing and len(missing) < len(given):
        raise ImproperlyConfigured(
            f"{' and '.join(missing)} must be set, too; see deploy/env.example"
        )


def _ca() -> str:
    """A file of certificates that the provider's one is held against; empty: those of everybody."""
    path = env.text("TRAINYARD_OIDC_CA").strip()
    try:
        if path:
            ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ImproperlyConfigured(
            f"TRAINYARD_OIDC_CA: no certificates can be read from {path}: {error}"
        ) from None
    return path


OIDC_ISSUER = _issuer()
OIDC_CLIENT_ID = env.text("TRAINYARD_OIDC_CLIENT_ID").strip()
OIDC_CLIENT_SECRET = env.text("TRAINYARD_OIDC_CLIENT_SECRET").strip()
_complete(OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET)
OIDC_CA = _ca()
OIDC_NAME = env.text("TRAINYARD_OIDC_NAME", "your organisation").strip()[:40]
OIDC_SCOPES = env.words("TRAINYARD_OIDC_SCOPES", "openid,profile,email")
if "openid" not in OIDC_SCOPES:
    raise ImproperlyConfigured("TRAINYARD_OIDC_SCOPES must have openid among its words")
OIDC_GROUPS_CLAIM = env.text("TRAINYARD_OIDC_GROUPS_CLAIM", "groups").strip()
# Who is let in that was never here: with an invitation always.
OIDC_NEW_PEOPLE = env.choice("TRAINYARD_OIDC_NEW_PEOPLE", "invited", "groups", "domains")
OIDC_DOMAINS = [word.lower() for word in env.words("TRAINYARD_OIDC_DOMAINS")]
if OIDC_NEW_PEOPLE == "domains" and not OIDC_DOMAINS:
    raise ImproperlyConfigured(
        "TRAINYARD_OIDC_NEW_PEOPLE is domains: name them in TRAINYARD_OIDC_DOMAINS"
    )
OIDC_TRUSTS_MAIL = env.flag("TRAINYARD_OIDC_TRUSTS_MAIL", False)
# Whose passwords are taken where people can sign in elsewhere.
OIDC_PASSWORDS = env.choice("TRAINYARD_OIDC_PASSWORDS", "everyone", "administrators")
# Who changes the mail addresses of people: they themselves, or administrators alone.
MAIL_ADDRESSES = env.choice("TRAINYARD_MAIL_ADDRESSES", "people", "administrators")

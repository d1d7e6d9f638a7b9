"""Production: HTTPS in front, real secrets, PostgreSQL and Redis by address."""

from django.core.exceptions import ImproperlyConfigured

from portal.settings import env
from portal.settings.base import *

for _name in ("TRAINYARD_SECRET_KEY", "TRAINYARD_ALLOWED_HOSTS", "DATABASE_URL", "REDIS_URL"):
    if not env.text(_name):
        raise ImproperlyConfigured(f"{_name} must be set in production; see deploy/env.example")
if OIDC_ISSUER.startswith("http://"):
    raise ImproperlyConfigured("TRAINYARD_OIDC_ISSUER must begin with https:// in production")

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.flag("TRAINYARD_SSL_REDIRECT", True)
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = env.whole("TRAINYARD_HSTS_S", 31536000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SESSION_COOKIE_NAME = "__Host-sessionid"
CSRF_COOKIE_NAME = "__Host-csrftoken"

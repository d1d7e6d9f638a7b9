"""HTTP to Django, `/ws/` to the live consumer; sockets only from our own pages."""

import os

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import SessionMiddlewareStack

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.prod")
# First: what the doors and the consumer import needs it.
django.setup(set_prefix=False)

from portal.doors import Doors
from portal.live.urls import urlpatterns

application = ProtocolTypeRouter(
    {
        "http": Doors(nodes="/api/agent/"),
        "websocket": AllowedHostsOriginValidator(SessionMiddlewareStack(URLRouter(urlpatterns))),
    }
)

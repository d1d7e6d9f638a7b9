"""HTTP to Django, `/ws/` to the live consumer; sockets only from our own pages."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import SessionMiddlewareStack
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.prod")
# First: it sets Django up, and what the consumer imports needs that.
django_application = get_asgi_application()

from portal.live.urls import urlpatterns

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": AllowedHostsOriginValidator(SessionMiddlewareStack(URLRouter(urlpatterns))),
    }
)

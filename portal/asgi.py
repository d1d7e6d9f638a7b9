"""HTTP to Django, `/ws/` to the live consumer, only from our own pages; `/s/` to sessions."""

import os

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import SessionMiddlewareStack

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.prod")
# First: what the doors and the consumer import needs it.
django.setup(set_prefix=False)

from django.template.loader import get_template

from portal.api.nodes.door import PREFIX, NodeDoor
from portal.doors import Doors
from portal.live.own_pages import OwnPages
from portal.live.sessions.doors import SessionDoors
from portal.live.urls import urlpatterns
from portal.serving.last_word import LastWord
from portal.serving.proxied import Proxied
from scheduler.collecting import settle

application = Proxied(
    ProtocolTypeRouter(
        {
            "http": LastWord(SessionDoors(Doors(PREFIX, NodeDoor))),
            "websocket": SessionDoors(
                OwnPages(
                    AllowedHostsOriginValidator(SessionMiddlewareStack(URLRouter(urlpatterns)))
                )
            ),
        }
    )
)
# Who can open no more files can still show these.
for page in ("errors/500.html", "errors/503.html"):
    get_template(page)
settle()

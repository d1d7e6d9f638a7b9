"""The one socket address."""

from django.urls import path

from portal.live.consumer import LiveConsumer

urlpatterns = [path("ws/", LiveConsumer.as_asgi())]

"""Where chats may be, and their addresses, which are secrets: who has one writes there."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings

from scheduler.models import Webhook
from scheduler.services.inbox.reaching import problem_of
from scheduler.services.secrets.cipher import seal, unseal


def problem_of_chat(url: str) -> str:
    """What is wrong with the address of a chat, with the remedy; empty: nothing.

    Everybody may name one, so it leads to hosts that an operator named and nowhere else: neither
    into the networks that webhooks may reach, nor to whoever collects what this server sends.
    """
    if problem := problem_of(url):
        return problem
    host = str(urlsplit(url).hostname).lower()
    if any(host == one or (one[:1] == "." and host.endswith(one)) for one in settings.CHAT_HOSTS):
        return ""
    known = ", ".join(f"*{one}" if one[:1] == "." else one for one in settings.CHAT_HOSTS) or "none"
    return (
        f"{host} is not among the hosts of chats: {known}. An operator adds it to "
        "TRAINYARD_CHAT_HOSTS."
    )


def shown_part(url: str) -> str:
    """All of an address that is kept in the clear: where it leads."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"


def sealed_address(url: str, channel: Webhook) -> bytes:
    """The address for the row, which has to be saved before."""
    return seal(url.encode(), _place(channel))


def address_of(channel: Webhook) -> str:
    """The whole address. Raises Unsealable."""
    return unseal(channel.sealed, _place(channel)).decode()


def _place(channel: Webhook) -> str:
    return f"channel:{channel.pk}"

"""Where this server may call of its own accord; see scheduler/services/inbox/reaching.py."""

from __future__ import annotations

from portal.settings import env

# Networks that are not of the open internet and that webhooks may lead to all the same.
WEBHOOK_NETWORKS = env.networks("TRAINYARD_WEBHOOK_NETWORKS")
# None: any port.
WEBHOOK_PORTS = env.ports("TRAINYARD_WEBHOOK_PORTS", "443")
# Whether addresses may begin with http://, where everybody on the way reads what is told.
WEBHOOKS_IN_THE_CLEAR = env.flag("TRAINYARD_WEBHOOKS_IN_THE_CLEAR", False)
# Hosts that people's and teams' own chats may be on; one that begins with a dot stands for all
# below it. None: no chats.
CHAT_HOSTS = tuple(
    word.lower()
    for word in env.words(
        "TRAINYARD_CHAT_HOSTS",
        "hooks.slack.com,hooks.slack-gov.com,.logic.azure.com,"
        ".environment.api.powerplatform.com,.webhook.office.com",
    )
)

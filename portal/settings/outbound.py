"""Where this server may call of its own accord; see scheduler/services/inbox/reaching.py."""

from __future__ import annotations

from portal.settings import env

# Networks that are not of the open internet and that webhooks may lead to all the same.
WEBHOOK_NETWORKS = env.networks("TRAINYARD_WEBHOOK_NETWORKS")
# None: any port.
WEBHOOK_PORTS = env.ports("TRAINYARD_WEBHOOK_PORTS", "443")
# Whether addresses may begin with http://, where everybody on the way reads what is told.
WEBHOOKS_IN_THE_CLEAR = env.flag("TRAINYARD_WEBHOOKS_IN_THE_CLEAR", False)

"""How many calls a minute one caller may make of one web process; see portal/limits.py."""

from portal.settings import env

# 0: no limit. `refused` counts callers without a good token or session, by address.
CALLS_PER_MINUTE = {
    "api": env.whole("TRAINYARD_API_PER_MINUTE", 12_000),
    "submit": env.whole("TRAINYARD_SUBMITS_PER_MINUTE", 6_000),
    "node": env.whole("TRAINYARD_NODE_CALLS_PER_MINUTE", 12_000),
    "refused": env.whole("TRAINYARD_REFUSED_PER_MINUTE", 300),
    # Of the palette and in logs; a search while one types asks several times.
    "search": env.whole("TRAINYARD_SEARCHES_PER_MINUTE", 300),
    "export": env.whole("TRAINYARD_EXPORTS_PER_MINUTE", 20),
    "socket": env.whole("TRAINYARD_SOCKETS_PER_MINUTE", 300),
}
# Live sockets of one person in one web process; a page without one asks by a timer. 0: no limit.
SOCKETS_AT_ONCE = env.whole("TRAINYARD_SOCKETS_AT_ONCE", 10)

# Whether webhooks may lead to this machine itself, as in tests; else they are refused.
WEBHOOKS_TO_THIS_MACHINE = env.flag("TRAINYARD_WEBHOOKS_TO_THIS_MACHINE", False)

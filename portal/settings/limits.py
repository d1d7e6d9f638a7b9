"""How many calls a minute one caller may make of one web process; see portal/limits.py."""

from portal.settings import env

# 0: no limit. `refused` counts callers without a good token or session, by address.
CALLS_PER_MINUTE = {
    "api": env.whole("TRAINYARD_API_PER_MINUTE", 12_000),
    "submit": env.whole("TRAINYARD_SUBMITS_PER_MINUTE", 6_000),
    "node": env.whole("TRAINYARD_NODE_CALLS_PER_MINUTE", 12_000),
    "refused": env.whole("TRAINYARD_REFUSED_PER_MINUTE", 300),
}

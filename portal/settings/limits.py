"""How many calls one caller may make; see portal/limits."""

from __future__ import annotations

from portal.settings import env

_EXPORTS = env.whole("TRAINYARD_EXPORTS_PER_HOUR", 6)
_INVITATIONS = env.whole("TRAINYARD_INVITATIONS_PER_HOUR", 60)
_LETTERS = env.whole("TRAINYARD_ADDRESS_LETTERS_PER_HOUR", 10)
# Of one person or program from one address. 0: no limit. `refused` counts callers without a good
# token or session, by address.
CALLS_PER_MINUTE: dict[str, float] = {
    "sign_in": env.whole("TRAINYARD_SIGN_INS_PER_MINUTE", 5),
    # From one address, behind which may be a whole house: each asks the provider once or twice.
    "elsewhere": env.whole("TRAINYARD_SIGN_INS_ELSEWHERE_PER_MINUTE", 60),
    "api": env.whole("TRAINYARD_API_PER_MINUTE", 600),
    "submit": env.whole("TRAINYARD_SUBMITS_PER_MINUTE", 60),
    "node": env.whole("TRAINYARD_NODE_CALLS_PER_MINUTE", 12_000),
    "refused": env.whole("TRAINYARD_REFUSED_PER_MINUTE", 300),
    # Of the palette and in logs; what is typed on while one searches counts a tenth.
    "search": env.whole("TRAINYARD_SEARCHES_PER_MINUTE", 30),
    "export": _EXPORTS / 60,
    "invite": _INVITATIONS / 60,
    # To confirm a mail address: of one person, and to one address whoever asks.
    "letter": _LETTERS / 60,
    "socket": env.whole("TRAINYARD_SOCKETS_PER_MINUTE", 30),
}
# What may come at once where that is more than a minute's worth.
CALLS_AT_ONCE = {
    "submit": env.whole("TRAINYARD_SUBMITS_AT_ONCE", 200),
    "export": _EXPORTS,
    "invite": _INVITATIONS,
    "letter": _LETTERS,
}
# Live sockets of one person in one web process; a page without one asks by a timer. 0: no limit.
SOCKETS_AT_ONCE = env.whole("TRAINYARD_SOCKETS_AT_ONCE", 10)

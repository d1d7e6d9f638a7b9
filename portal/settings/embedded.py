"""The embedded default: loopback, SQLite, its own broker, everything in one state folder."""

from portal.settings.base import *

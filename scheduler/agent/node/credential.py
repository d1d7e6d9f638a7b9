"""The node's token as its agent shows it: a new one is written down before it is shown."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

from scheduler.agent.client import Client
from scheduler.agent.config import ConfigProblem, NodeIdentity, read_identity, write_identity
from scheduler.failpoints import reach

logger = logging.getLogger(__name__)


class Credential:
    """What `node.json` says, and which token is shown. Thread-safe.

    The one before stays in the file: a server that was put back to an earlier copy of its database
    knows that one alone.
    """

    def __init__(self, state: Path, identity: NodeIdentity, client: Client) -> None:
        self.identity = identity
        self.shown = identity.node_token
        self._state = state
        self._client = client
        self._lock = threading.Lock()

    def take(self, offered: str) -> None:
        """Write down a token that the server offers, then show it; two calls may bring the same."""
        with self._lock:
            if not offered or offered == self.shown:
                return
            fresh = replace(self.identity, node_token=offered, former_token=self.shown)
            try:
                write_identity(self._state, fresh)
            except OSError as problem:
                logger.warning("the new token cannot be written, the old one stays: %s", problem)
                return
            reach("agent.token-written")
            self.identity = fresh
            self._show(offered)
            logger.info("the server has renewed this node's token")

    def is_replaced(self, refused: str) -> bool:
        """A token was refused: is another one shown now, with which to try again?"""
        with self._lock:
            if refused != self.shown:
                return True  # a call that was under way
            if self._was_enrolled_again():
                return True
            own, former = self.identity.node_token, self.identity.former_token
            if former and refused == own:
                logger.warning("the server does not know this node's token; trying the one before")
                self._show(former)
                return True
            self._show(own)
            return False

    def _was_enrolled_again(self) -> bool:
        """Take up a token that `enrol` has meanwhile left in the state folder."""
        try:
            fresh = read_identity(self._state)
        except ConfigProblem:
            return False
        if fresh.node_token == self.identity.node_token:
            return False
        logger.info("the node was enrolled again as %s; going on with its new token", fresh.name)
        self.identity = fresh
        self._show(fresh.node_token)
        return True

    def _show(self, token: str) -> None:
        self.shown = token
        self._client.use_token(token)

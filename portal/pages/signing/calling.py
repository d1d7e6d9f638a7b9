"""Calls to the identity provider: short, small, never led elsewhere."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import requests

_CONNECT_S, _READ_S, _WHOLE_S = 3, 10, 15
_MOST_BYTES = 256 * 1024
_PIECE = 16 * 1024


class Calls(requests.Session):
    """A session that asks only where `issuer` may send it: by https as the issuer itself, through
    the proxy of the environment if there is one. `ca`: a file of certificates to believe."""

    def __init__(self, issuer: str, ca: str = "") -> None:
        super().__init__()
        self.verify = ca or True
        self._scheme = urlsplit(issuer).scheme
        # A .netrc of the server's user is nothing to send along.
        self.trust_env = False
        if not requests.utils.should_bypass_proxies(issuer, no_proxy=None):
            self.proxies.update(getproxies())

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        """As of requests; raises RequestException for what is led elsewhere, takes too long or is
        larger than any answer of a provider."""
        if urlsplit(str(url)).scheme not in ("https", self._scheme):
            raise requests.exceptions.InvalidURL(f"{url} does not begin with https://")
        kwargs.update(allow_redirects=False, stream=True, timeout=(_CONNECT_S, _READ_S))
        began = time.monotonic()
        answer = super().request(method, url, *args, **kwargs)
        if answer.is_redirect:
            raise requests.exceptions.TooManyRedirects(f"{url} leads elsewhere")
        body = b""
        for piece in answer.iter_content(_PIECE):
            body += piece
            if len(body) > _MOST_BYTES or time.monotonic() - began > _WHOLE_S:
                raise requests.exceptions.ContentDecodingError(f"{url} answers too much")
        answer._content = body
        return answer

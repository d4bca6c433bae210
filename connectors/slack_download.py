"""Downloads from Slack: bounded, from Slack's own hosts alone, and the token goes nowhere else.

An address in a message is whatever somebody wrote there, so a host is believed by its name and a redirect is not followed.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from connectors.slack_api import Clock
from cortex.errors import Unparsable

_TIMEOUT_S = 30.0
_ATTEMPTS = 4
_LONGEST_WAIT_S = 60.0
# A machine without a network says so at once, for every file: after so many in a row nobody asks any more.
_SILENCES = 3
_PIECE_BYTES = 1 << 20


class Downloads:
    """Files of one workspace. `api_url` names the one more host that may be asked: the Web API's own, if on loopback."""

    def __init__(self, token: str, api_url: str = "", clock: Clock | None = None) -> None:
        self._token = token
        self._own = urlsplit(api_url).netloc if api_url.startswith("http://") else ""
        self._clock = clock or Clock()
        self._client = httpx.Client(timeout=_TIMEOUT_S, follow_redirects=False, verify=not self._own)
        self._n_silences = 0

    def get(self, url: str, media_type: str, max_bytes: int) -> bytes:
        """Return a file's bytes; raises Unparsable with the reason why not."""
        if not self._is_slacks(url):
            raise Unparsable("its address is not one of Slack's", code="file.foreign")
        for attempt in range(_ATTEMPTS):
            if self._n_silences >= _SILENCES:
                break
            try:
                found = self._once(url, media_type, max_bytes)
            except httpx.HTTPError:
                self._n_silences += 1
            else:
                self._n_silences = 0
                if not isinstance(found, float):
                    return found
                self._clock.sleep(max(found, 2.0**attempt))
        raise Unparsable("Slack does not answer; the next load asks again", code="file.unreachable")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _is_slacks(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        host = parts.hostname or ""
        is_slack = parts.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com"))
        return is_slack or bool(self._own and parts.scheme == "http" and parts.netloc == self._own)

    def _once(self, url: str, media_type: str, max_bytes: int) -> bytes | float:
        """Return the bytes, or for how many seconds Slack asks to wait."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        with self._client.stream("GET", url, headers=headers) as response:
            status = response.status_code
            if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
                wait = response.headers.get("Retry-After", "")
                return min(float(wait), _LONGEST_WAIT_S) if wait.isdecimal() else 0.0
            if status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                raise Unparsable("Slack does not have it any more", code="file.gone")
            is_page = response.headers.get("Content-Type", "").startswith("text/html")
            if status != httpx.codes.OK or (is_page and "html" not in media_type):
                reason = "Slack does not give it to this token; it needs the scope files:read"
                raise Unparsable(reason, code="file.refused")
            content = bytearray()
            for piece in response.iter_bytes(_PIECE_BYTES):
                content += piece
                if len(content) > max_bytes:
                    raise Unparsable(f"it has over {max_bytes:,} bytes", code="document.too_large")
            return bytes(content)

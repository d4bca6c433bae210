"""Asking Cortex over HTTP as a service: every call names the person it is made for, and may name who else will read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import quote

import httpx

from clients.cli.calls import api_url, raise_problem, reaching
from clients.patience import patiently_async
from cortex.api import ACT_FOR, AnswerResponse
from cortex.errors import Forbidden, Misconfigured
from cortex.principals import Principal
from cortex.settings import Settings
from cortex.tokens import local_private_key, sign

SERVICE = "slack-bot"  # the name under which a bot beside its home signs; other tokens bring their own
_CONNECT_TIMEOUT_S = 5.0
_SILENCE_TIMEOUT_S = 120.0  # a model on a small machine may think this long
_TOKEN_TTL_S = 300


class Cortex:
    """One connection to the API."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._settings = settings
        self._url = api_url(settings)
        self._client = httpx.AsyncClient(
            base_url=self._url,
            timeout=httpx.Timeout(_SILENCE_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
            trust_env=False,  # a proxy for the internet is no way to Cortex
            transport=transport,
        )

    async def check(self) -> None:
        """Raise unless Cortex answers, knows this service and lets it act for people."""
        response = await self._send("GET", "/v1/session")
        if "act" not in response.json()["scopes"]:
            raise Forbidden(
                "the service token may not act for people",
                code="act.forbidden",
                hint=f"cortex token {SERVICE} --scope act",
            )

    async def answer(
        self, person: str, question: str, audience: Collection[str] | None = None
    ) -> AnswerResponse:
        """Answer a question for a person, and for a whole audience if one is given: then from what all may open."""
        body: dict[str, Any] = {"query": question}
        if audience is not None:
            body["audience"] = sorted(audience)
        response = await self._send("POST", "/v1/answer", person, body)
        return AnswerResponse.model_validate(response.json())

    async def rate(self, person: str, answer_id: str, *, is_helpful: bool) -> None:
        """Give a thumb on a person's own answer; raises NotFound for another's."""
        await self._send("POST", "/v1/feedback", person, {"answer_id": answer_id, "helpful": is_helpful})

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _send(
        self, method: str, path: str, person: str = "", body: dict[str, Any] | None = None
    ) -> httpx.Response:
        """Call, and again while Cortex is busy or loses what it held; raises a problem's error."""
        headers = {"authorization": f"Bearer {self._token()}"}
        if person:
            headers[ACT_FOR] = quote(person, safe="@")
        with reaching(self._url):
            response = await patiently_async(
                lambda: self._client.request(method, path, json=body, headers=headers)
            )
            raise_problem(response)
        return response

    def _token(self) -> str:
        """Return the token of the settings, or sign one with this home's key."""
        if given := self._settings.slack_service_token.get_secret_value():
            return given
        if not self._settings.keys_path.is_dir():
            raise Misconfigured(
                "the bot has no token for Cortex, and this home has no key to sign one",
                code="slack.service_token_missing",
                hint=f"set CORTEX_SLACK_SERVICE_TOKEN: cortex token {SERVICE} --scope act",
            )
        service = Principal(self._settings.tenant_id, SERVICE, frozenset({"act"}))
        return sign(service, local_private_key(self._settings), _TOKEN_TTL_S)

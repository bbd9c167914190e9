"""``POST /invocations`` as HTTP: an ASGI endpoint of its own, because this is the path whose microseconds count.

FastAPI's dependency machinery would cost as much as the rest of it; ``openapi.py`` describes the endpoint instead.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams

from airflow_provider_ragops.exceptions import BodyTimeoutError, ServingError
from airflow_provider_ragops.workloads.serving.answer import Answer
from airflow_provider_ragops.workloads.serving.errors import error_answer
from airflow_provider_ragops.workloads.serving.service import Invocation, Service, too_large

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

# Of a body that is too large, as much is still read as a client has usually sent before it looks for an answer; a
# connection closed before that would be a reset instead of a 413.
DISCARDED = 64 * 1024 * 1024


class Disconnected(Exception):
    """The caller is gone: there is nobody to answer."""


class Invocations:
    """:param service: answers; it never raises."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limits = service.state.settings.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(receive)
        except Disconnected:
            return
        except ServingError as error:
            self._service.refused(error)
            await respond(send, error_answer(error), close=True)
            return
        name, version = _wanted(scope["query_string"])
        answer = await self._service.answer(Invocation(body, _content_type(scope), name, version))
        await respond(send, answer)

    async def _body(self, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                message = await receive()
                if message["type"] != "http.request" or message.get("more_body"):
                    return await self._rest(message, receive)
        except TimeoutError as error:
            raise BodyTimeoutError(
                "the request", expected=f"its body within {self._limits.request_seconds} s", seen="less than all of it",
                action="Send it again, faster.",
            ) from error
        whole: bytes = message.get("body", b"")
        if len(whole) > self._limits.body_bytes:
            raise too_large(self._limits.body_bytes)
        return whole

    async def _rest(self, message: Message, receive: Receive) -> bytes:
        parts, size, limit = [], 0, self._limits.body_bytes
        while True:
            if message["type"] == "http.disconnect":
                raise Disconnected
            part = message.get("body", b"")
            size += len(part)
            if size <= limit:
                parts.append(part)
            else:
                parts.clear()
            if size > DISCARDED or not message.get("more_body"):
                break
            message = await receive()
        if size > limit:
            raise too_large(limit)
        return b"".join(parts)


async def respond(send: Send, answer: Answer, *, close: bool = False) -> None:
    body = answer.body.encode()
    headers = [(b"content-type", answer.media_type.encode()), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _wanted(query: bytes) -> tuple[str | None, str | None]:
    if not query:
        return None, None
    given = QueryParams(query)
    return given.get("model_name") or None, given.get("model_version") or None


def _content_type(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"content-type":
            text: str = value.decode("latin-1")
            return text
    return ""


class Closing:
    """While the process drains, every answer asks the client to open its next connection elsewhere."""

    def __init__(self, app: Any, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._service.state.draining:
            await self._app(scope, receive, send)
            return

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() != b"connection"]
                message = {**message, "headers": [*kept, (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive, closing)

"""A TCP proxy in the test's event loop that can be slow, cut connections, or stop half way through an answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class TcpProxy:
    """``delay``: seconds before each piece of an answer is passed on. ``cut_after``: bytes of answers until a reset."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self.delay = 0.0
        self.cut_after: int | None = None
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._closing = asyncio.Event()

    async def __aenter__(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            there, upstream = await asyncio.open_connection(*self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, upstream}
        with suppress(OSError):
            await asyncio.gather(self._pass(reader, upstream), self._pass(there, writer, is_answer=True))
        for each in (writer, upstream):
            each.transport.abort()
            self._writers.discard(each)

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        while piece := await source.read(65536):
            if is_answer:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.delay):
                        await self._closing.wait()
                if self.cut_after is not None:
                    piece, self.cut_after = piece[: self.cut_after], self.cut_after - len(piece)
                    if self.cut_after <= 0:
                        target.write(piece)
                        self.cut_after = None
                        break
            target.write(piece)
            await target.drain()
        await asyncio.sleep(0)
        target.close()

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._closing.set()
        self.cut()
        await asyncio.gather(*self._serving)
        await self._server.wait_closed()

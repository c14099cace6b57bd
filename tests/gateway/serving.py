"""The hub on a real port, in a thread of this process, and the official clients for it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx2
import uvicorn
from openai import AsyncOpenAI, OpenAI

from steelyard.hall.settings import Address
from steelyard.hub.app import build_hub
from steelyard.hub.settings import load_settings
from steelyard.web.process import bind, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.gateway.world import World

    from steelyard.hub.app import Hub

WAIT_S = 60.0


class Served:
    """One hub on a port."""

    def __init__(self, hub: Hub, world: World, url: str) -> None:
        self.hub = hub
        self.world = world
        self.url = url

    def post(self, body: object, *, secret: str | None = None) -> httpx2.Response:
        """POST /v1/embeddings."""
        return self.ask("POST", "/v1/embeddings", secret=secret, json=body)

    def ask(self, method: str, path: str, *, secret: str | None = None, **fields: object) -> httpx2.Response:
        """Send one request with the client's secret, or another."""
        headers = {"Authorization": f"Bearer {secret or self.world.secret}"}
        with httpx2.Client(trust_env=False, timeout=WAIT_S) as client:
            return client.request(method, self.url + path, headers=headers, **fields)  # type: ignore[arg-type]

    def openai(self) -> OpenAI:
        """Give the official client, which repeats nothing."""
        http = httpx2.Client(trust_env=False)
        return OpenAI(base_url=f"{self.url}/v1", api_key=self.world.secret, max_retries=0, http_client=http)

    def async_openai(self) -> AsyncOpenAI:
        """Give the official asynchronous client, which repeats nothing."""
        http = httpx2.AsyncClient(trust_env=False)
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.world.secret, max_retries=0, http_client=http)


@contextmanager
def serving(world: World, *, environ: Mapping[str, str] | None = None, **settings: object) -> Iterator[Served]:
    """Serve the hub over *world* until the end of the block; `max_in_progress=1` sets STEELYARD_HUB_MAX_IN_PROGRESS."""
    values = {"calls_per_second": 100_000, **settings}
    loaded = load_settings({f"STEELYARD_HUB_{name.upper()}": str(value) for name, value in values.items()})
    hub = build_hub(loaded, world.database, environ=environ or {})
    listener = bind(Address("127.0.0.1", 0), variable="the test's address")
    server = uvicorn.Server(
        uvicorn.Config(hub.app, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=10)
    )

    async def run() -> None:
        await server.serve(sockets=[listener])
        while hub.admission.in_progress:
            await asyncio.sleep(0.01)
        await hub.gateway.disconnect()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield Served(hub, world, url_of(listener))
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        hub.gateway.close()
        listener.close()
    assert not thread.is_alive()

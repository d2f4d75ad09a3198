# Both clients behind one face, so that each test is written once: the asynchronous client runs on a loop in another thread.

import asyncio
import inspect
import threading

from entente import AsyncEntente, Entente

# No operation of a test takes longer, in seconds.
PATIENCE = 60


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, awaitable):
        async def awaited():
            return await awaitable

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(PATIENCE)

    def end(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class Awaited:
    """An object of the asynchronous client, as if it were one of the synchronous client."""

    def __init__(self, found, loop):
        self.__dict__.update(_found=found, _loop=loop)

    def _settled(self, value):
        if inspect.isawaitable(value):
            value = self._loop.run(value)
        ours = type(value).__module__.startswith("entente._async") or inspect.isasyncgen(value)
        return Awaited(value, self._loop) if ours else value

    def __getattr__(self, name):
        found = getattr(self._found, name)
        if not callable(found) or isinstance(found, type):
            return self._settled(found)
        return lambda *args, **kwargs: self._settled(self._called(found, args, kwargs))

    def _called(self, found, args, kwargs):
        # What starts tasks needs the loop.
        async def on_the_loop():
            return found(*args, **kwargs)

        return self._loop.run(on_the_loop())

    def close(self):
        self._loop.run(self._found.aclose())

    def __enter__(self):
        entered = self._loop.run(self._found.__aenter__())
        return self if entered is self._found else self._settled(entered)

    def __exit__(self, *ended):
        return self._loop.run(self._found.__aexit__(*ended))

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._loop.run(self._found.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


def client(flavour, loop, url, key, agent=None, **options):
    """Returns a client of a flavour, `sync` or `async`."""
    if flavour == "sync":
        return Entente(url, key, agent, **options)

    async def made():
        return AsyncEntente(url, key, agent, **options)

    return Awaited(loop.run(made()), loop)

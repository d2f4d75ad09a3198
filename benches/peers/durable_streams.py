"""Durable Streams, its server from npm, with its file store."""

import contextlib

import kit

NAME = "Durable Streams"
PACKAGE = "@durable-streams/server"


def version(_stage) -> str:
    return kit.npm_version(PACKAGE)


@contextlib.contextmanager
def works(stage):
    kit.npm_version(PACKAGE)
    port, data = kit.free_port(), stage.place / "streams"
    data.mkdir()
    with kit.running([kit.node(), kit.HERE / "durable_streams.js", port, data], stage.place / "streams.log") as process:
        kit.wait(process, lambda: kit.said(process, "ready"))
        kit.ask("PUT", f"http://127.0.0.1:{port}/v1/stream/peers")
        request = kit.post("/v1/stream/peers", {"text": kit.TEXT})
        yield [
            kit.Work(
                "append to one stream",
                "file store, fdatasync before each answer",
                "sends",
                lambda: kit.shoot(stage.place, port, request),
                "its reference server, one Node.js process; no authentication",
            )
        ]

"""NATS JetStream, the nats-server on PATH or of Debian, with its file store."""

import contextlib
import json
import shutil
import socket

import kit

NAME = "NATS JetStream"
STREAM = "peers"


def program() -> str:
    if found := shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/opt/homebrew/bin"):
        return found
    raise kit.Unavailable("nats-server is not installed")


def version(_stage) -> str:
    return kit.called([program(), "--version"]).split()[-1].lstrip("v")


def configured(place, port: int) -> tuple[object, str]:
    """Writes the configuration; returns its file, and how durable it makes the stream."""
    file, setting = place / "nats.conf", "sync_interval: always"
    write = lambda more: file.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{place}/nats", {more} }}\n')
    write(setting)
    try:
        kit.called([program(), "-t", "-c", file])
        return file, f"file store, {setting}"
    except kit.Unavailable:
        write("")
        return file, "file store; **not durable**: this version has no `sync_interval` (2.10 has) and syncs every 2 minutes"


def create(port: int):
    """Creates the stream."""
    said, ask = b"", json.dumps({"name": STREAM, "subjects": [f"{STREAM}.>"], "storage": "file", "retention": "workqueue"})
    with socket.create_connection(("127.0.0.1", port), kit.START_LIMIT) as connection:
        frames = ['CONNECT {"verbose":false}', "SUB answer 1", f"PUB $JS.API.STREAM.CREATE.{STREAM} answer {len(ask)}", ask]
        connection.sendall(("\r\n".join(frames) + "\r\n").encode())
        while b"MSG answer" not in said or not said.endswith(b"}\r\n"):
            said += connection.recv(65536)
    if b'"error"' in said:
        raise kit.Unavailable(f"it creates no stream: {said[-300:]!r}")


@contextlib.contextmanager
def works(stage):
    port = kit.free_port()
    file, durable = configured(stage.place, port)
    with kit.running([program(), "-c", file], stage.place / "nats.log") as process:
        kit.wait(process, lambda: kit.listens(port))
        create(port)
        text = json.dumps({"text": kit.TEXT})
        hello = 'CONNECT {"verbose":false,"pedantic":false}\r\nSUB answer.{client} 1\r\nPING\r\n'
        talk = {"Lines": {"hello": hello, "welcome": "PONG\r\n", "end": "}\r\n", "refusal": '"error"'}}
        publish = f"PUB {STREAM}.sends answer.{{client}} {len(text)}\r\n{text}\r\n"
        load = [kit.node(), kit.HERE / "jetstream_load.js", port, STREAM, kit.CLIENTS, kit.SECONDS, text]
        yield [
            kit.Work(
                "publish with acknowledgement",
                durable,
                "sends",
                lambda: kit.shoot(stage.place, port, publish, talk),
                "32 connections, one message at a time on each; no authentication, no access checks",
            ),
            kit.Work(
                "publish, pull and acknowledge",
                durable,
                "cycles",
                lambda: kit.loaded(load),
                "work queue; 32 publishers and 4 pulling consumers with 64 messages each in one Node.js process; an "
                "acknowledgement of a consumer is not answered",
            ),
        ]

"""Load for ARCP's runtime: sessions over WebSocket, each of which submits a job and waits for its result, over and over. The
frames are written by hand, because a client of the SDK costs as much as the runtime."""

import asyncio
import json
import sys
import time

import websockets

FRAME = '{{"arcp":"1.1","id":"01920000-0000-7000-8000-{:012x}","session_id":"{}","type":"job.submit","payload":{}}}'


async def session(number: int, url: str, token: str, until: float, payload: str, micros: list[float]):
    async with websockets.connect(url, compression=None) as socket:
        hello = {
            "client": {"name": "peers", "version": "1"},
            "auth": {"scheme": "bearer", "token": token},
            "capabilities": {"encodings": ["json"], "features": []},
        }
        await socket.send(json.dumps({"arcp": "1.1", "id": f"01920000-0000-7000-8000-{number:012x}", "type": "session.hello", "payload": hello}))
        name = json.loads(await socket.recv())["session_id"]
        sent = 0
        while time.monotonic() < until:
            begun = time.monotonic()
            sent += 1
            await socket.send(FRAME.format(number << 32 | sent, name, payload))
            while '"job.result"' not in (frame := await socket.recv()):
                assert '"job.error"' not in frame and '"session.error"' not in frame, frame
            micros.append(1e6 * (time.monotonic() - begun))


async def main(url: str, token: str, clients: str, seconds: str, text: str):
    begun, micros = time.monotonic(), []
    payload = json.dumps({"agent": "echo", "input": {"text": text}})
    until = begun + float(seconds)
    await asyncio.gather(*(session(number + 1, url, token, until, payload, micros) for number in range(int(clients))))
    rate = len(micros) / (time.monotonic() - begun)
    micros.sort()
    of = lambda q: micros[int(q * (len(micros) - 1))] / 1e3
    print(json.dumps({"rate": rate, "p50": of(0.5), "p99": of(0.99)}))


asyncio.run(main(*sys.argv[1:]))

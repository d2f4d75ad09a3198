# Drives the Python SDK of A2A, unmodified, against the agent at ENTENTE_URL, in the binding that the argument names, or in 0.3,
# and prints what came of it.

import asyncio
import json
import os
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict

URL, KEY, AGENT = (os.environ[name] for name in ("ENTENTE_URL", "ENTENTE_API_KEY", "A2A_AGENT"))
BINDING = sys.argv[1]


def message(text: str, **more) -> a2a.SendMessageRequest:
    parts = [a2a.Part(text=text)]
    return a2a.SendMessageRequest(
        message=a2a.Message(message_id=str(uuid.uuid4()), role=a2a.ROLE_USER, parts=parts, **more)
    )


def kind(event: a2a.StreamResponse) -> list:
    """Returns an event in short."""
    name = event.WhichOneof("payload")
    value = MessageToDict(getattr(event, name))
    if name == "artifact_update":
        flags = [value.get(flag, False) for flag in ("append", "lastChunk")]
        return [name, value["artifact"]["parts"][0].get("text"), *flags]
    return [name, value["status"]["state"].removeprefix("TASK_STATE_")]


async def refused(call) -> str:
    try:
        await call
    except A2AError as e:
        return type(e).__name__
    return "nothing"


async def nothing(stream):
    async for _ in stream:
        pass


class Receiver(BaseHTTPRequestHandler):
    """Takes push notifications, and reads them as the SDK's objects."""

    got: list = []

    def do_POST(self):  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = ("content-type", "x-a2a-notification-token", "authorization")
        self.got.append((ParseDict(body, a2a.StreamResponse()), [self.headers[name] for name in names]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


async def pushed(client) -> list:
    """Begins a task with a receiver, and returns what that was sent, and what is said of it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = a2a.TaskPushNotificationConfig(
        url=f"http://127.0.0.1:{server.server_port}/", token="mine",
        authentication=a2a.AuthenticationInfo(scheme="Bearer", credentials="secret"),
    )
    settings = a2a.SendMessageConfiguration(return_immediately=True, task_push_notification_config=config)
    request = a2a.SendMessageRequest(message=message("stream").message, configuration=settings)
    [answer] = [event async for event in client.send_message(request)]
    task = answer.task.id
    for _ in range(400):
        if Receiver.got and kind(Receiver.got[-1][0]) == ["status_update", "COMPLETED"]:
            break
        await asyncio.sleep(0.05)
    server.shutdown()
    second = a2a.TaskPushNotificationConfig(task_id=task, id="second", url="https://example.com/")
    await client.create_task_push_notification_config(second)
    listed = await client.list_task_push_notification_configs(
        a2a.ListTaskPushNotificationConfigsRequest(task_id=task)
    )
    one = a2a.GetTaskPushNotificationConfigRequest(task_id=task, id="second")
    got = await client.get_task_push_notification_config(one)
    deleted = a2a.DeleteTaskPushNotificationConfigRequest(task_id=task, id="second")
    await client.delete_task_push_notification_config(deleted)
    kinds, headers = [kind(event) for event, _ in Receiver.got], [headers for _, headers in Receiver.got]
    return [kinds, headers[-1], sorted(config.id == task for config in listed.configs), got.url, await refused(
        client.get_task_push_notification_config(one)
    )]


async def story(http: httpx.AsyncClient) -> dict:
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=[BINDING], streaming=False)
    client = await create_client(f"{URL}/a2a/{AGENT}", config)
    streaming = await create_client(
        f"{URL}/a2a/{AGENT}", ClientConfig(httpx_client=http, supported_protocol_bindings=[BINDING])
    )
    seen = {}

    async def send(request) -> a2a.Task:
        [answer] = [event async for event in client.send_message(request)]
        return answer.task

    card = await client.get_extended_agent_card(a2a.GetExtendedAgentCardRequest())
    seen["card"] = [card.name, [interface.protocol_binding for interface in card.supported_interfaces]]

    echoed = await send(message("echo hello"))
    seen["echo"] = MessageToDict(echoed)
    got = await client.get_task(a2a.GetTaskRequest(id=echoed.id, history_length=1))
    seen["same"] = [got.id == echoed.id, len(got.history), got.artifacts == echoed.artifacts]

    seen["stream"] = [kind(event) async for event in streaming.send_message(message("stream"))]

    seen["pushed"] = await pushed(client)

    # It asks back: the stream ends, the answer goes to the same task, and another call waits for the end.
    asking = [event async for event in streaming.send_message(message("ask"))]
    task = asking[0].task
    seen["asked"] = kind(asking[-1])
    booked = await send(message("Oslo", task_id=task.id, context_id=task.context_id))
    is_same = booked.context_id == task.context_id
    seen["booked"] = [MessageToDict(booked)["status"]["state"], booked.artifacts[0].parts[0].text, is_same]

    seen["declined"] = a2a.TaskState.Name((await send(message("decline"))).status.state)

    # A subscriber sees the cancellation.
    begun = await send(
        a2a.SendMessageRequest(
            message=message("wait").message, configuration=a2a.SendMessageConfiguration(return_immediately=True)
        )
    )
    seen["followed"] = []

    async def follow():
        async for event in streaming.subscribe(a2a.SubscribeToTaskRequest(id=begun.id)):
            seen["followed"].append(kind(event))

    following = asyncio.create_task(follow())
    while not seen["followed"]:
        await asyncio.sleep(0.05)
    cancelled = await client.cancel_task(a2a.CancelTaskRequest(id=begun.id))
    seen["cancelled"] = a2a.TaskState.Name(cancelled.status.state)
    await asyncio.wait_for(following, 20)

    pages, token = [], ""
    while True:
        page = await client.list_tasks(a2a.ListTasksRequest(page_size=2, page_token=token))
        pages.append([task.id for task in page.tasks])
        token = page.next_page_token
        if not token:
            break
    seen["listed"] = [len(pages), sum(map(len, pages)), page.total_size]

    seen["refused"] = [
        await refused(client.get_task(a2a.GetTaskRequest(id="job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"))),
        await refused(client.cancel_task(a2a.CancelTaskRequest(id=echoed.id))),
        await refused(send(message("more", task_id=echoed.id))),
        await refused(nothing(streaming.subscribe(a2a.SubscribeToTaskRequest(id=echoed.id)))),
        await refused(
            client.create_task_push_notification_config(
                a2a.TaskPushNotificationConfig(task_id=echoed.id, url="http://10.0.0.1/inside")
            )
        ),
    ]
    return seen


async def older(http: httpx.AsyncClient) -> dict:
    """Speaks 0.3, as the SDK does with agents whose card says so."""
    client = await create_client(f"{URL}/a2a/{AGENT}/v0.3", ClientConfig(httpx_client=http))
    events = [event async for event in client.send_message(message("echo hello"))]
    task = await client.get_task(a2a.GetTaskRequest(id=events[0].task.id))
    return {
        "transport": type(client._transport).__name__,
        "events": [kind(event) for event in events],
        "task": MessageToDict(task),
        "refused": await refused(client.cancel_task(a2a.CancelTaskRequest(id=task.id))),
    }


async def main():
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as http:
        print(json.dumps(await (older if BINDING == "0.3" else story)(http)))


asyncio.run(main())

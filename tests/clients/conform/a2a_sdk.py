# An agent of A2A's own Python SDK, unmodified, that echoes and ends at once.

import sys

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette


class Echo(AgentExecutor):
    async def execute(self, context, event_queue):
        if not context.current_task:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await task.start_work()
        await task.add_artifact([Part(text=context.get_user_input())])
        await task.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


port = int(sys.argv[1])
card = AgentCard(
    name="echo", description="Echoes.", version="1.0.0", default_input_modes=["text/plain"], default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=True, push_notifications=True),
    supported_interfaces=[AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")],
    skills=[AgentSkill(id="echo", name="Echo", description="Echoes.", tags=["echo"])],
)
handler = DefaultRequestHandler(
    agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card, push_config_store=InMemoryPushNotificationConfigStore()
)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")

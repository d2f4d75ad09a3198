# A model on loopback, in the forms of OpenAI's and Anthropic's APIs. It proposes the payments that the prompt names, and after their results
# it says what came of them. It remembers nothing, and the ids of its calls are new each time, as a model's are.

import contextlib
import json
import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The payments in a prompt, whatever a framework writes around it.
PAYMENTS = re.compile(r'\[\{"amount".*?\}\]|\[\]')
USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}


# The prompt of docs/frameworks.md.
SENTENCE = re.compile(r"Pay (\w+) (\d+)\.")


def payments(prompt):
    """The arguments of the calls that a prompt asks for."""
    if found := PAYMENTS.findall(prompt):
        return json.loads(found[-1])
    return [{"amount": int(amount), "to": to} for to, amount in SENTENCE.findall(prompt)[:1]]


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(one.get("text", "") if isinstance(one, dict) else str(one) for one in content or [])


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        self.server.requests.append((self.path, body))
        if self.path.partition("?")[0].endswith("/chat/completions"):
            if body["model"] in ("hangs", "drops"):
                # The model works on it, and its answer does not arrive.
                self.server.over.wait(60 if body["model"] == "hangs" else 0)
                self.close_connection = True
                return
            self.openai(body)
        elif self.path.partition("?")[0].endswith("/v1/messages"):
            self.anthropic(body)
        else:
            self.answer({"input_tokens": 1})

    def answer(self, body, kind="application/json"):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def openai(self, body):
        results = [text_of(one["content"]) for one in body["messages"] if one["role"] == "tool"]
        message = {"role": "assistant", "content": " | ".join(results) or "Nothing to pay."}
        asked = payments(" ".join(text_of(one.get("content")) for one in body["messages"]))
        tools = [one["function"]["name"] for one in body.get("tools") or []]
        if not results and "pay" in tools and asked:
            message["content"] = None
            message["tool_calls"] = [
                {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": {"name": "pay", "arguments": json.dumps(one)}}
                for one in asked
            ]
        choice = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        whole = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
        usage = USAGE | ({"prompt_tokens_details": {"cached_tokens": 10}} if body["model"] == "caches" else {})
        if not body.get("stream"):
            return self.answer(whole | {"object": "chat.completion", "choices": [choice | {"message": message}], "usage": usage})
        for number, call in enumerate(message.get("tool_calls", [])):
            call["index"] = number
        part = whole | {"object": "chat.completion.chunk"}
        parts = [part | {"choices": [choice | {"finish_reason": None, "delta": message}]}, part | {"choices": [choice | {"delta": {}}]}]
        parts.append(part | {"choices": [], "usage": USAGE})
        self.answer("".join(f"data: {json.dumps(one)}\n\n" for one in parts) + "data: [DONE]\n\n", "text/event-stream")

    def anthropic(self, body):
        blocks = [one for message in body["messages"] if isinstance(message["content"], list) for one in message["content"]]
        # Claude's program writes hints to the model behind the results.
        results = [text_of(one.get("content")).partition("\n<system-reminder>")[0] for one in blocks if one["type"] == "tool_result"]
        asked = payments(" ".join(text_of(one["content"]) for one in body["messages"] if one["role"] == "user"))
        tools = [one["name"] for one in body.get("tools") or [] if one["name"].endswith("pay")]
        content = [{"type": "text", "text": " | ".join(results) or "Nothing to pay."}]
        if not results and tools and asked:
            content = [{"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": tools[0], "input": one} for one in asked]
        message = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": body["model"], "content": content}
        message |= {"stop_reason": content[-1]["type"].replace("text", "end_turn"), "stop_sequence": None}
        message["usage"] = {"input_tokens": 10, "output_tokens": 10}
        if not body.get("stream"):
            return self.answer(message)
        events = [{"type": "message_start", "message": message | {"content": [], "stop_reason": None}}]
        for number, block in enumerate(content):
            is_text = block["type"] == "text"
            begun = block | ({"text": ""} if is_text else {"input": {}})
            delta = {"type": "text_delta", "text": block["text"]} if is_text else None
            delta = delta or {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events.append({"type": "content_block_start", "index": number, "content_block": begun})
            events.append({"type": "content_block_delta", "index": number, "delta": delta})
            events.append({"type": "content_block_stop", "index": number})
        ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 10}})
        events.append({"type": "message_stop"})
        self.answer("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events), "text/event-stream")


@contextlib.contextmanager
def serving():
    """A model that listens; yields the server, with its address and what it was asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    server.requests, server.over = [], threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()

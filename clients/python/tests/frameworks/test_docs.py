# Every program of docs/frameworks.md runs as it stands; its model is on loopback, and its person lets everything run.

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from human import RUN, Human

CLIENT = Path(__file__).parents[2]
PAGE = (CLIENT.parents[1] / "docs" / "frameworks.md").read_text()
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.S | re.M))
# The package that each needs, and what it prints.
EXPECTED = {
    "LangGraph": ("langgraph", "Yes"),
    "OpenAI Agents SDK": ("agents", "paid 5 to bob"),
    "Claude Agent SDK": ("claude_agent_sdk", "paid 5 to bob"),
    "Pydantic AI": ("pydantic_ai", "paid 5 to bob"),
    "Microsoft Agent Framework": ("agent_framework", "paid 5 to bob"),
    "AutoGen": ("autogen_agentchat", "paid 5 to bob"),
    "CrewAI": ("crewai", "paid 5 to bob"),
    "LiteLLM": ("litellm", "Nothing to pay."),
}
# The model on loopback has the older one of OpenAI's two APIs.
BEFORE = {"OpenAI Agents SDK": "from agents import set_default_openai_api\nset_default_openai_api('chat_completions')\n"}


def test_every_program_is_run():
    assert PROGRAMS.keys() == EXPECTED.keys()


@pytest.fixture(scope="module")
def ada(server):
    """A person who lets everything run that they are asked about."""
    human, over = Human(server, "human.ada"), threading.Event()

    def answering():
        while not over.wait(0.1):
            for one in human.asked():
                if one["state"] == "open":
                    with contextlib.suppress(httpx.HTTPStatusError):
                        human.answer(one, RUN)

    thread = threading.Thread(target=answering)
    thread.start()
    yield human
    over.set()
    thread.join()


@pytest.mark.parametrize("heading", [name for name, (package, _) in EXPECTED.items() if importlib.util.find_spec(package)])
def test_a_program(heading, ada, model, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(BEFORE.get(heading, "") + PROGRAMS[heading])
    settings = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_BASE": f"{model.url}/v1", "OPENAI_API_KEY": "none"}
    settings |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none", "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path)}
    # Nothing is fetched from elsewhere, or told to anybody.
    settings |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    settings |= {"MCP_CONNECTION_NONBLOCKING": "0", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    settings |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    settings |= {"CREWAI_TRACING_ENABLED": "false", "CREWAI_TESTING": "true", "CREWAI_DISABLE_VERSION_CHECK": "true"}
    settings |= {"PYTHONPATH": str(CLIENT / "src")}
    done = subprocess.run([sys.executable, path], env=os.environ | settings, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert EXPECTED[heading][1] in done.stdout

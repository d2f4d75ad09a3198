# Clients generated from the OpenAPI document, in Python and in TypeScript, used against a real server: the answers must
# match the document, including errors.

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import AGENTS, PROGRAM
from kit import INTENT

HERE = Path(__file__).parent / "generated"
MODULES = HERE / "node_modules"
ADA = AGENTS["agent.ada"]
JOB = "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"

# Warnings of openapi-python-client about unsupported content, whatever the document: bodies other than JSON, and
# metrics.
BEYOND_IT = (
    "Unsupported content_type application/openmetrics-text",
    "Unsupported content type application/x-ndjson",
    "Unsupported content_type application/x-ndjson",
)


@pytest.fixture(scope="session")
def document(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("openapi") / "entente.json"
    path.write_bytes(subprocess.run([PROGRAM, "openapi"], check=True, capture_output=True).stdout)
    return path


@pytest.fixture(scope="session")
def python(document):
    """The client of the generated package."""
    settings = document.with_name("settings.yaml")
    # Without the formatter, because nobody reads the code.
    settings.write_text("post_hooks: []\npackage_name_override: entente_generated\n")
    generator = Path(sys.executable).with_name("openapi-python-client")
    into = document.with_name("entente_generated")
    command = [generator, "generate", "--path", document, "--meta", "none", "--config", settings, "--output-path", into]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    # Each warning is an operation or an answer that its users do not get.
    assert said.count("WARNING") == sum(said.count(reason) for reason in BEYOND_IT), said
    assert "Unable to" not in said, said
    sys.path.insert(0, str(into.parent))
    yield importlib.import_module("entente_generated.client")
    sys.path.remove(str(into.parent))


def test_a_python_client(python, url):
    def call(tag: str, operation: str, *given, key: str = ADA, **named):
        client = python.AuthenticatedClient(base_url=url, token=key, prefix="", auth_header_name="X-API-Key")
        module = importlib.import_module(f"entente_generated.api.{tag}.{operation}")
        answer = module.sync_detailed(*given, client=client, **named)
        # An answer that the document does not define would not be parsed.
        assert answer.parsed is not None or answer.status_code == 204, answer
        return answer

    models = importlib.import_module("entente_generated.models")
    intent = call("intents", "create_intent", body=models.NewIntent.from_dict({"title": "From a generated client"})).parsed
    patch = {"patches": [{"op": "set", "path": "progress", "value": 40}]}
    state = models.StateBody.from_dict(patch)
    patched = call("intents", "patch_state", intent.id, body=state, if_match=intent.version).parsed
    assert patched.state.to_dict() == {"progress": 40}
    channel = models.NewChannel.from_dict({"name": "talk", "options": {"audit": True}})
    channel = call("channels", "create_channel", intent.id, body=channel).parsed
    message = models.SendBody.from_dict({"sender": "agent.ada", "payload": {"n": 1}})
    sent = call("messages", "send_message", channel.id, body=message).parsed
    assert (sent.status, sent.message_type) == (models.MessageStatus.DELIVERED, models.MessageType.NOTIFY)
    page = call("messages", "list_messages", channel.id, limit=10).parsed
    assert [one.id for one in page] == [sent.id]

    # Refusals, each with its own code of the closed list.
    problems = {
        "not_found": call("intents", "get_intent", INTENT),
        "unauthenticated": call("intents", "list_intents", key="wrong"),
        "version_conflict": call("intents", "patch_state", intent.id, body=state, if_match=1),
        "invalid_request": call("messages", "send_message", channel.id, body=models.SendBody.from_dict({"sender": ""})),
    }
    for code, answer in problems.items():
        assert isinstance(answer.parsed, models.ProblemBody), answer
        assert (answer.parsed.code, answer.parsed.status) == (models.Code(code), answer.status_code), answer
    assert problems["version_conflict"].parsed.current_version == patched.version
    # The resources of jobs use ARCP's error codes.
    lost = call("jobs", "get_job", JOB).parsed
    assert isinstance(lost, models.JobProblemBody) and lost.code == models.JobProblemBodyCode("JOB_NOT_FOUND")
    assert lost.retryable is False
    # An optional body is omitted.
    gone = call("jobs", "cancel_job", JOB).parsed
    assert gone.code == models.JobProblemBodyCode.JOB_NOT_FOUND


@pytest.fixture(scope="session")
def modules() -> Path:
    """The packages of package-lock.json."""
    stamp = MODULES / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, capture_output=True)
    return MODULES


def test_a_typescript_client(modules, document, url):
    work = document.with_name("typescript")
    work.mkdir()
    (work / "node_modules").symlink_to(modules)
    for name in ("use.ts", "tsconfig.json", "package.json"):
        (work / name).write_bytes((HERE / name).read_bytes())

    def run(*command) -> str:
        environment = os.environ | {"ENTENTE_URL": url, "ENTENTE_API_KEY": ADA}
        # The Node.js of the packages, because the machine's own may be too old.
        command = [modules / ".bin" / "node", *command]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(modules / "openapi-typescript" / "bin" / "cli.js", document, "--output", "schema.ts")
    run(modules / "typescript" / "bin" / "tsc")
    assert json.loads(run("use.js")) == {
        "title": "From a generated client",
        "state": {"progress": 40},
        "status": "delivered",
        "listed": [{"n": 1}],
        "gone": "gone: 404",
        "who": "who: 401",
        "stale": "stale: 2",
        "wrong": "wrong: body.title",
        "lost": "gone: 404",
    }

# Workflow files of the SDK: the SDK accepts a file and its parts, and `entente workflow apply` creates the same intents
# that the SDK's coordinator would create.

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import AGENTS, PROGRAM, SERVICE
from openintent.workflow import WorkflowSpec, WorkflowValidationError, validate_workflow

# Written for this test.
FILE = """openintent: "1.0"
info:
  name: Weekly letter
  description: The letter of the week
governance:
  max_cost_usd: 12
types:
  Finding: {source: string, text: string}
workflow:
  collect:
    title: Collect the news
    description: What happened
    assign: agent.bob
    constraints: [no rumours]
    initial_state: {week: 30}
    retry: {max_attempts: 2, backoff: linear, initial_delay_ms: 500}
    outputs: {findings: Finding}
  write_up:
    assign: agent.bob
    depends_on: [collect]
    leasing: {strategy: global, ttl_seconds: 60}
    cost_tracking: {enabled: true, budget_usd: 1.5}
    inputs: {findings: collect.findings}
    outputs: [letter]
    permissions:
      policy: restricted
      allow:
        - {agent: agent.eve, level: read}
      delegate: {to: [agent.carl], level: write}
      context: [dependencies]
"""

SDIST = Path(__file__).parents[2] / ".venv" / "sdists" / "openintent-0.17.0"
# Files in the sources of the SDK: the two that its command writes, and those of its own tests, right and wrong ones.
RIGHT, WRONG = 11, 5


def published() -> list[tuple[str, str]]:
    """Returns the workflow files in the texts of the SDK's sdist, with the place of each."""
    sources = [SDIST / "openintent" / "cli.py", *sorted(SDIST.glob("tests/test_workflow*.py"))]
    found = []
    for source in sources:
        tree = ast.parse(source.read_text())
        formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {id(part) for node in formatted for part in node.values}
        for node in ast.walk(tree):
            text = ""
            if isinstance(node, ast.JoinedStr):
                # The template's name of a workflow.
                text = "".join(part.value if isinstance(part, ast.Constant) else "template" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                text = node.value
            if text.lstrip().startswith('openintent: "1.0"'):
                found.append((f"{source.name}:{node.lineno}", text))
    return found


@pytest.fixture
def flavour():
    """Only the synchronous client has graphs."""
    return "sync"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "letter.yaml"
    path.write_text(FILE)
    return path


def workflow(url: str, *arguments, key: str = AGENTS["agent.ada"]) -> subprocess.CompletedProcess:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ENTENTE_")}
    environ |= {"ENTENTE_URL": url, "ENTENTE_API_KEY": key}
    command = [PROGRAM, "workflow", *arguments, "--json"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def test_the_intents_are_those_that_the_sdk_would_create(url, ada, eve, file):
    expected = WorkflowSpec.from_yaml(file).to_portfolio_spec()
    assert validate_workflow(file) == ["Phase 'write_up' has no description"]
    applied = workflow(url, "apply", file)
    assert applied.returncode == 0, applied.stderr + applied.stdout
    report = json.loads(applied.stdout)
    root = ada.get_intent(report["intent_id"])
    assert (root.title, root.description) == (expected.name, expected.description)
    parts = ada.get_children(root.id)
    assert [part.title for part in parts] == [intent.title for intent in expected.intents]
    assert [part.description for part in parts] == [intent.description for intent in expected.intents]
    for part, intent in zip(parts, expected.intents):
        assert part.state.to_dict() == intent.initial_state
        assert part.constraints.get("rules", []) == intent.constraints
    assert parts[1].depends_on == [parts[0].id]
    policy = ada.get_retry_policy(parts[0].id)
    assert (policy.strategy.value, policy.max_retries, policy.base_delay_ms) == ("linear", 2, 500)
    # The list of the restricted phase names Eve, who may read.
    assert eve.get_intent(parts[1].id).title == "Write Up"

    again = json.loads(workflow(url, "apply", file).stdout)
    assert (again["created"], again["changed"], again["intent_id"]) == (0, 0, root.id)


def test_check_refuses_what_the_sdk_refuses(url, file):
    assert workflow(url, "check", file).returncode == 0
    for old, new in [
        ("  name: Weekly letter\n", ""),
        ("    assign: agent.bob\n", ""),
        ("depends_on: [collect]", "depends_on: [colect]"),
        ("collect.findings", "collect.found"),
        ("collect.findings", "collect"),
        ("    depends_on: [collect]\n", ""),
        ("    description: What happened\n", "    depends_on: [write_up]\n"),
        ("policy: restricted", "policy: secret"),
        ("level: read", "level: look"),
    ]:
        assert FILE.count(old) >= 1
        file.write_text(FILE.replace(old, new, 1))
        with pytest.raises((WorkflowValidationError, ValueError)):
            WorkflowSpec.from_yaml(file)
        checked = workflow(url, "check", file)
        assert checked.returncode == 1, new
        assert json.loads(checked.stderr)["errors"], new


def test_the_files_in_the_sources_of_the_sdk_are_applied_or_refused_as_the_sdk_does(url, connect, tmp_path):
    service, counts = connect("agent.ada", SERVICE, "sync"), [0, 0]
    for place, text in published():
        path = tmp_path / "published.yaml"
        path.write_text(text)
        try:
            expected = WorkflowSpec.from_yaml(path).to_portfolio_spec()
        except WorkflowValidationError:
            expected = None
        counts[expected is None] += 1
        checked = workflow(url, "check", path)
        assert checked.returncode == (1 if expected is None else 0), place + checked.stderr
        if expected is None:
            assert json.loads(checked.stderr)["errors"], place
            continue
        # The service's key may enter the file's agents into the directory.
        applied = workflow(url, "apply", path, key=SERVICE)
        assert applied.returncode == 0, place + applied.stdout
        root = service.get_intent(json.loads(applied.stdout)["intent_id"])
        assert root.title == expected.name, place
        parts = service.get_children(root.id)
        assert sorted(part.title for part in parts) == sorted(intent.title for intent in expected.intents), place
    assert counts == [RIGHT, WRONG], "the sdist has other files than before"

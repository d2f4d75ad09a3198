# Workflow files of the SDK: the SDK accepts a file and its parts, and `entente workflow apply` creates the same intents
# that the SDK's coordinator would create.

import json
import os
import subprocess

import pytest
from conftest import AGENTS, PROGRAM
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


@pytest.fixture
def flavour():
    """Only the synchronous client has graphs."""
    return "sync"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "letter.yaml"
    path.write_text(FILE)
    return path


def workflow(url: str, *arguments) -> subprocess.CompletedProcess:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ENTENTE_")}
    environ |= {"ENTENTE_URL": url, "ENTENTE_API_KEY": AGENTS["agent.ada"]}
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

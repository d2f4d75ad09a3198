# Discovery through the SDK (OI-4.9): the server's description of itself, without a key.

import httpx
import pytest
from kit import open_sdk


def test_the_server_says_what_it_is(ada):
    found = ada.discover()
    assert (found["protocol"], found["version"]) == ("OpenIntent Coordination Protocol", "0.1")
    assert {"intents", "leasing", "attachments", "cost-tracking", "retry-policies"} <= set(found["capabilities"])
    assert "RFC-0021" in [rfc["rfc"] for rfc in found["rfcs"]]


def test_the_server_says_how_it_is_set(ada, flavour):
    if flavour == "sync":
        pytest.skip("this client has no method for it")
    config = ada.get_server_config()
    assert config["protocol_version"] == "0.1"
    # An agent merges its own policy with this one before it waits for a person (RFC-0026).
    assert config["suspension"]["default_retry_policy"] is None
    assert config["features"]["retryPolicies"] is True


def test_neither_needs_a_key(url, flavour):
    nobody = open_sdk(flavour, url, "no-key-at-all", "agent.nobody")
    assert nobody.discover()["implementation"] == "Entente"
    nobody.end()


def test_the_compatibility_document(url):
    found = httpx.get(f"{url}/.well-known/openintent-compat.json").json()
    assert found["rfcCompliance"]["RFC-0021"] == "full"
    assert found["features"]["statePatches"] is True
    assert set(found["gaps"]) == {rfc for rfc, level in found["rfcCompliance"].items() if level == "partial"}

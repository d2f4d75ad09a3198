# Vaults, credentials, grants and tools through the SDK (RFC-0014): an agent uses a service without ever seeing its key.

import json
import threading
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kit import now, recent, refused
from openintent import ConflictError, NotFoundError, OpenIntentError
from openintent.models import (
    Credential,
    CredentialStatus,
    CredentialVault,
    GrantConstraints,
    GrantSource,
    GrantStatus,
    InvocationStatus,
    ToolInvocation,
)

SECRET = "sk-live-of-the-python-tests"
NOBODYS = "01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


class Service(BaseHTTPRequestHandler):
    """A service with a key: it answers with the received request, including the key."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.heard.append((self.path, said))
        known = self.headers["x-api-key"] == SECRET
        body = json.dumps({"you_said": said, "your_key": self.headers["x-api-key"]}).encode()
        self.send_response(200 if known and "fail" not in said else 418)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.heard = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def vault(ada):
    return ada.create_vault("agent.ada", "services")


@pytest.fixture
def credential(ada, vault, service):
    """A credential in the form of the reference server's clients: the key is part of the metadata."""
    metadata = {
        "base_url": f"http://127.0.0.1:{service.server_port}",
        "endpoints": {"web_search": {"path": "/v1/search", "method": "POST"}},
        "auth": {"location": "header", "header_name": "X-API-Key"},
        "api_key": SECRET,
    }
    return ada.create_credential(vault["id"], "search", "the team's key", metadata=metadata)


def test_a_vault_is_its_owners(ada, bob, vault, credential):
    found = CredentialVault.from_dict(ada.get_vault(vault["id"]))
    assert (found.id, found.owner_id, found.name) == (vault["id"], "agent.ada", "services")
    assert found.credentials == [credential["id"]]
    assert recent(found.created_at)
    with refused(NotFoundError, 404, "not_found"):
        bob.get_vault(vault["id"])
    with refused(OpenIntentError, 403, "may_not_act_as"):
        bob.create_vault("agent.ada", "mine")


def test_a_credential_is_shown_without_its_secret(ada, bob, vault, credential):
    shown = ada.get_credential(credential["id"])
    assert SECRET not in json.dumps([credential, shown])
    found = Credential.from_dict(shown)
    assert (found.service, found.label, found.auth_type.value) == ("search", "the team's key", "api_key")
    assert (found.status, found.vault_id) == (CredentialStatus.ACTIVE, vault["id"])
    assert "base_url" in found.metadata and "api_key" not in found.metadata
    assert recent(found.created_at)
    with refused(NotFoundError, 404, "not_found"):
        bob.get_credential(credential["id"])
    with refused(NotFoundError, 404, "not_found"):
        bob.create_credential(vault["id"], "search", "mine")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_credential(vault["id"], "search", "key", metadata={"base_url": "http://169.254.169.254/"})


def test_a_grant_is_seen_by_who_gave_it_and_who_holds_it(ada, bob, eve, credential):
    end = (now() + timedelta(hours=1)).isoformat()
    constraints = GrantConstraints(max_invocations_per_hour=5, denied_parameters={"force": None})
    made = ada.create_tool_grant(
        credential["id"],
        "agent.bob",
        "agent.ada",
        ["web_search"],
        constraints=constraints.to_dict(),
        context={"why": "research"},
        expires_at=end,
        delegatable=True,
    )
    assert (made.agent_id, made.granted_by, made.scopes) == ("agent.bob", "agent.ada", ["web_search"])
    assert (made.source, made.status, made.delegatable) == (GrantSource.DIRECT, GrantStatus.ACTIVE, True)
    assert (made.constraints, made.context) == (constraints, {"why": "research"})
    assert made.expires_at == datetime.fromisoformat(end)
    for client in (ada, bob):
        assert client.get_tool_grant(made.id) == made
        assert made in client.list_agent_grants("agent.bob")
    assert made not in eve.list_agent_grants("agent.bob")
    with refused(NotFoundError, 404, "not_found"):
        eve.get_tool_grant(made.id)
    with refused(NotFoundError, 404, "not_found"):
        eve.revoke_grant(made.id)
    with refused(NotFoundError, 404, "not_found"):
        bob.create_tool_grant(credential["id"], "agent.eve", "agent.bob")
    # Bob delegates the grant, and the delegated one ends with his.
    on = bob.create_tool_grant(credential["id"], "agent.eve", "agent.bob", ["web_search"], delegated_from=made.id)
    assert (on.source, on.delegated_from, on.delegation_depth) == (GrantSource.DELEGATED, made.id, 1)
    assert ada.revoke_grant(made.id)["status"] == "revoked"
    assert eve.get_tool_grant(on.id).status == GrantStatus.REVOKED
    assert recent(bob.get_tool_grant(made.id).revoked_at)


def test_the_list_of_grants_needs_the_scope(connect, url, operator, flavour):
    import httpx

    admin = {"X-API-Key": operator}
    name = f"agent.narrow-{flavour}"
    httpx.post(f"{url}/api/v1/principals", headers=admin, json={"id": name, "kind": "agent"}).raise_for_status()
    ask = {"scopes": ["intents:read"]}
    key = httpx.post(f"{url}/api/v1/principals/{name}/keys", headers=admin, json=ask).raise_for_status().json()["key"]
    with refused(OpenIntentError, 403, "scope_missing"):
        connect(name, key).list_agent_grants(name)


def test_a_tool_is_called_with_a_key_that_the_agent_never_sees(ada, bob, credential, service):
    grant = ada.create_tool_grant(credential["id"], "agent.bob", "agent.ada", ["web_search"])
    ask = {"grant_id": grant.id, "idempotency_key": f"call-{grant.id}"}
    done = bob.invoke_tool("web_search", "agent.bob", {"q": "agents"}, **ask)
    assert (done["status"], done["tool_name"], done["error"]) == ("success", "web_search", None)
    assert done["result"] == {"you_said": {"q": "agents"}, "your_key": "[REDACTED]"}
    # A retry does not call the tool twice.
    assert bob.invoke_tool("web_search", "agent.bob", {"q": "agents"}, **ask) == done
    assert service.heard == [("/v1/search", {"q": "agents"})]
    failed = bob.invoke_tool("web_search", "agent.bob", {"fail": True}, grant_id=grant.id)
    assert (failed["status"], failed["http_status"]) == ("error", 418)
    used = [ToolInvocation.from_dict(one) for one in ada.list_invocations(grant.id)]
    assert [one.status for one in used] == [InvocationStatus.ERROR, InvocationStatus.SUCCESS]
    assert used[1].invocation_id == done["invocation_id"]
    assert (used[1].parameters, used[1].result) == ({"q": "agents"}, done["result"])
    assert recent(used[1].timestamp)
    with refused(OpenIntentError, 403, "forbidden"):
        bob.invoke_tool("delete_all", "agent.bob", {})
    with refused(ConflictError, 409, "idempotency_mismatch"):
        bob.invoke_tool("web_search", "agent.bob", {"q": "others"}, **ask)
    bob.revoke_grant(grant.id)
    with refused(OpenIntentError, 403, "forbidden"):
        bob.invoke_tool("web_search", "agent.bob", {"q": "agents"}, grant_id=grant.id)


def test_an_agent_reports_what_it_has_called(ada, bob, eve, credential):
    grant = ada.create_tool_grant(credential["id"], "agent.bob", "agent.ada", ["web_search"])
    said = bob.record_invocation(
        grant.id,
        "search",
        "web_search",
        "agent.bob",
        parameters={"q": "agents", "token": "mine"},
        result={"hits": 3},
        cost={"amount": 0.1, "currency": "USD"},
        duration_ms=12,
    )
    [found] = bob.list_invocations(grant.id, limit=5)
    assert found == said
    one = ToolInvocation.from_dict(found)
    assert (one.status, one.duration_ms, one.cost["amount"]) == (InvocationStatus.SUCCESS, 12, 0.1)
    assert one.parameters == {"q": "agents", "token": "[REDACTED]"}
    with refused(NotFoundError, 404, "not_found"):
        eve.record_invocation(grant.id, "search", "web_search", "agent.eve")
    with refused(NotFoundError, 404, "not_found"):
        eve.list_invocations(f"grant_{NOBODYS}")

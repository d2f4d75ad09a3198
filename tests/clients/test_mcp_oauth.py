# The Python SDK of MCP, unmodified, in a host that insists on OAuth: it finds the metadata by the challenge of a 401,
# and gets a token for its client credentials.

import asyncio

import httpx
import pytest
from conftest import AGENTS
from mcp import ClientSession
from mcp.client.auth import OAuthTokenError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from test_mcp import content, leaves

ADA = AGENTS["agent.ada"]


class Memory:
    """A client's store of tokens."""

    def __init__(self):
        self.tokens = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


def whoami(url: str, secret: str, method: str) -> tuple[dict, Memory]:
    """Connects with client credentials alone, and returns who the client is, with its store of tokens."""
    memory = Memory()
    # The client writes URLs with a slash at the end.
    provider = ClientCredentialsOAuthProvider(
        f"{url}/mcp", memory, "agent.ada", secret, token_endpoint_auth_method=method, issuer=f"{url}/"
    )

    async def told():
        async with (
            httpx.AsyncClient(auth=provider, timeout=60) as http,
            streamable_http_client(f"{url}/mcp", http_client=http) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return content(await session.call_tool("whoami", {}))

    return asyncio.run(told()), memory


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_host_connects_with_client_credentials(url, method):
    me, memory = whoami(url, ADA, method)
    assert me["agent"] == "agent.ada" and me["key_expires_at"] is not None
    assert memory.tokens.access_token != ADA and 0 < memory.tokens.expires_in <= 3600
    assert set(memory.tokens.scope.split()) == set(me["scopes"])


def test_wrong_credentials_are_refused(url):
    with pytest.raises(BaseExceptionGroup) as refused:
        whoami(url, "wrong", "client_secret_basic")
    faults = [fault for fault in leaves(refused.value) if isinstance(fault, OAuthTokenError)]
    assert faults and "invalid_client" in str(faults[0])

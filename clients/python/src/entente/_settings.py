"""Where the server is and who calls it: shared by a client, its copies under fences, and the workers made of it."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import httpx

from .errors import EntenteError

try:
    VERSION = version("entente-client")
except PackageNotFoundError:  # a source tree that is not installed
    VERSION = "0"


@cache
def tls() -> ssl.SSLContext:
    """The authorities that every client trusts, read once: that takes longer than a request."""
    return httpx.create_ssl_context()


@dataclass(frozen=True)
class Settings:
    """How requests are sent."""

    base_url: str
    api_key: str = field(repr=False)
    agent_id: str | None
    # Seconds for which a request is repeated whose server is away.
    patience: float
    # Seconds to wait for an answer, beyond those that the server was asked to wait.
    timeout: float
    # What every write must hold under: `Entente-Lease`, `Entente-Claim`, `Entente-Epoch`.
    fences: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, base_url: str | None, api_key: str | None, agent_id: str | None, patience: float, timeout: float) -> Settings:
        """Returns the settings as given, or those of the environment."""
        key = api_key or os.environ.get("ENTENTE_API_KEY", "")
        if not key:
            raise EntenteError("There is no key. Give `api_key=`, or set ENTENTE_API_KEY.")
        url = base_url or os.environ.get("ENTENTE_URL") or "http://127.0.0.1:8080"
        url = url.rstrip("/")
        # Clients of OpenIntent name the API's prefix.
        for prefix in ("/api/v1", "/v1"):
            url = url.removesuffix(prefix)
        return cls(url, key, agent_id, patience, timeout)

    def under(self, **fences: str) -> Settings:
        """Returns the same settings with more fences."""
        return replace(self, fences={**self.fences, **fences})

    def headers(self, method: str) -> dict[str, str]:
        """Returns the headers of every request of a method."""
        # The server tells OpenIntent's SDK by httpx's own name, and gives it times in another form (OI-3.6.2).
        found = {"X-API-Key": self.api_key, "User-Agent": f"entente-python/{VERSION}"}
        if self.agent_id:
            found["X-Agent-ID"] = self.agent_id
        return found if method == "GET" else found | self.fences

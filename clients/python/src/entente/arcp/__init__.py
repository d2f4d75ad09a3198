"""Agents that were written for the ARCP Python SDK, as durable workers of an Entente server: `from entente.arcp import ARCPRuntime` in place
of `from arcp.runtime import ARCPRuntime`, and nothing else.

Each name of `arcp.runtime` is here. Its `ARCPRuntime` keeps sessions and jobs in its own memory; this one keeps them at the server, so that
they outlive the program, and several copies of it share the work. Address and key are ENTENTE_URL and ENTENTE_API_KEY.
"""

from __future__ import annotations

try:
    import arcp.runtime as _sdk
except ImportError as missing:  # pragma: no cover
    how = 'pip install "./clients/python[arcp]"'
    raise ImportError(f"entente.arcp needs the ARCP SDK, for Python 3.11 and newer: {how}, in a clone of Entente") from missing

from arcp.runtime import (
    Agent,
    AuthorizationContext,
    BearerVerifier,
    Credential,
    CredentialConstraints,
    CredentialProvisioner,
    EventLog,
    Identity,
    InMemoryCredentialProvisioner,
    InMemoryEventLog,
    InMemoryRevocationLog,
    JobAuthorizationPolicy,
    JobCredentialContext,
    JWTVerifier,
    LeaseOpContext,
    RevocationLog,
    SessionContext,
    SessionState,
    SqliteEventLog,
    StaticBearerVerifier,
    UpstreamBudgetExhausted,
    assert_lease_subset,
    features_for_runtime,
    initial_budget_from_lease,
    is_lease_subset,
    validate_lease_constraints,
    validate_lease_op,
    validate_lease_shape,
)

from .jobs import Job, JobContext, ResultStream
from .runtime import ARCPRuntime

__all__ = list(_sdk.__all__)

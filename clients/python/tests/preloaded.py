# What the programs of the examples import, once for all of them.

import arcp.client  # noqa: F401
import arcp.middleware.otel  # noqa: F401
import entente.arcp  # noqa: F401
from entente._settings import tls

# The authorities that every client trusts.
tls()

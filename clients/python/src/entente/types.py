"""The types of answers, such as `types.MessageBody`. Those of requests are in `entente.requests`."""

from ._generated.answers import *  # noqa: F403

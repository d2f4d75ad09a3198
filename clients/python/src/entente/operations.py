"""All operations of the API, as requests: `client.call(operations.list_teams())`."""

from ._generated.operations import *  # noqa: F403

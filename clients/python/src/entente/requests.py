"""The types of requests, such as `requests.SendBody`: dictionaries, as the API's documentation writes them."""

from ._generated.requests import *  # noqa: F403

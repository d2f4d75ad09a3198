# What the tests of our own Python client share: its source, clients of both flavours, and a network that fails.

import os
import sys
from pathlib import Path

import pytest

HERE, SOURCE = Path(__file__).parent, Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))
# For the programs that tests start.
os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCE), str(HERE)])

from both import Loop, client  # noqa: E402
from proxy import Proxy  # noqa: E402
from server import AGENTS, ARCP_SETTINGS, serving  # noqa: E402


@pytest.fixture(scope="session")
def server():
    """A server for the whole run, with the settings of ARCP's examples."""
    with serving(**ARCP_SETTINGS) as found:
        yield found


@pytest.fixture
def url(server):
    return server.url


@pytest.fixture(params=["sync", "async"])
def flavour(request):
    """The client that a test uses: each test runs with both."""
    return request.param


@pytest.fixture(scope="session")
def loop():
    found = Loop()
    yield found
    found.end()


@pytest.fixture
def proxy(url):
    """A way to the server that fails as the test says."""
    found = Proxy(url)
    yield found
    found.close()


@pytest.fixture
def join(url, flavour, loop):
    """Opens clients of agents, by the server's address or another one."""
    made = []

    def one(agent, address=None, **options):
        made.append(client(flavour, loop, address or url, AGENTS[agent], **options))
        return made[-1]

    yield one
    for one_made in made:
        one_made.close()


@pytest.fixture
def ada(join):
    return join("agent.ada")


@pytest.fixture
def bob(join):
    return join("agent.bob")


@pytest.fixture
def intent(ada):
    return ada.create_intent("Research", "Q1 figures")


@pytest.fixture
def talk(ada, intent):
    """A channel on that intent, as Ada uses it."""
    return ada.channels.open("talk", intent.id)

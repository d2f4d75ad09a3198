# What the tests of our own Python client share: its source, clients of both flavours, and a network that fails.

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "clients" / "python" / "src"))

from both import Loop, client  # noqa: E402
from proxy import Proxy  # noqa: E402

ADA = ("agent.ada", "the-key-of-ada")
BOB = ("agent.bob", "the-key-of-bob")
EVE = ("agent.eve", "the-key-of-eve")


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
        made.append(client(flavour, loop, address or url, agent[1], **options))
        return made[-1]

    yield one
    for one_made in made:
        one_made.close()


@pytest.fixture
def ada(join):
    return join(ADA)


@pytest.fixture
def bob(join):
    return join(BOB)


@pytest.fixture
def intent(ada):
    return ada.create_intent("Research", "Q1 figures")


@pytest.fixture
def talk(ada, intent):
    """A channel on that intent, as Ada uses it."""
    return ada.channels.open("talk", intent.id)

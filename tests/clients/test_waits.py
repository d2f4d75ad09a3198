# Deadlocks, compared with networkx: the strongly connected components and the simple cycles of 10,000 random graphs of waits.

import json
import os
import random
import subprocess
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "target" / "debug" / "examples" / "deadlocks"
GRAPHS = 10_000

# The parts of the two agents that a wait connects: a blocking call holds up all that an agent does, work only its work.
ENDS = {"request": ("call", "call"), "lease": ("call", "work"), "task": ("work", "work"), "job": ("work", "work")}
KINDS = [*ENDS, "decision"]


def random_waits(dice: random.Random) -> list:
    """Returns random waits `[from, to, kind, blocks]`; half of the graphs have requests only, where every cycle is a deadlock."""
    agents = [f"agent.{n}" for n in range(dice.randint(1, 8))]
    kinds = ["request"] if dice.random() < 0.5 else KINDS
    count = dice.randint(0, 2 * len(agents))
    return [[dice.choice(agents), dice.choice(agents), dice.choice(kinds), dice.random() < 0.9] for _ in range(count)]


def expected(waits: list) -> list:
    """Returns the agents and the waits of each deadlock, by networkx."""
    graph = networkx.MultiDiGraph()
    for at, (start, to, kind, blocks) in enumerate(waits):
        for agent in (start, to):
            graph.add_edge((agent, "work"), (agent, "call"), key=f"own {agent}")
        if blocks and kind in ENDS:
            graph.add_edge((start, ENDS[kind][0]), (to, ENDS[kind][1]), key=at)
    found = []
    for component in networkx.strongly_connected_components(graph):
        inside = graph.subgraph(component)
        own = sorted(key for _, _, key in inside.edges(keys=True) if isinstance(key, int))
        if own:
            found.append([sorted({waits[at][0] for at in own}), own])
        # What is strongly connected is what the simple cycles go through, and nothing else.
        plain = networkx.DiGraph(inside)
        cycles = list(networkx.simple_cycles(plain))
        assert {node for cycle in cycles for node in cycle} == (set(component) if own else set())
        steps = {(cycle[at - 1], cycle[at]) for cycle in cycles for at in range(len(cycle))}
        assert steps == (set(plain.edges) if own else set())
    return sorted(found)


@pytest.fixture(scope="module")
def program() -> Path:
    if not PROGRAM.exists():
        command = ["cargo", "build", "--quiet", "--package", "entente-domain", "--example", "deadlocks"]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"SQLX_OFFLINE": "true"}, check=True)
    return PROGRAM


def test_deadlocks_are_the_cycles_that_networkx_finds(program):
    dice = random.Random(int(os.environ.get("ENTENTE_FUZZ_SEED", "21")))
    graphs = [random_waits(dice) for _ in range(GRAPHS)]
    lines = "".join(json.dumps(waits) + "\n" for waits in graphs)
    answer = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    found = [sorted(json.loads(line)) for line in answer.stdout.splitlines()]
    assert len(found) == GRAPHS
    deadlocks = 0
    for waits, ours in zip(graphs, found, strict=True):
        assert ours == expected(waits), waits
        deadlocks += len(ours)
    # The graphs have something to find, and some have nothing.
    assert deadlocks > GRAPHS // 2
    assert any(not ours for ours in found)

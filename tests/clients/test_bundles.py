# Bundles of intents, by readers that share nothing with the server: scripts/verify_bundle.py, and the public packages for DSSE and
# in-toto of .venv/dsse (dsse.py).

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from conftest import AGENTS, DEVELOPER, PROGRAM

ROOT = Path(__file__).parents[2]
VERIFIER = ROOT / "scripts" / "verify_bundle.py"
DSSE = ROOT / ".venv" / "dsse" / "bin" / "python"
sys.path.insert(0, str(VERIFIER.parent))

from verify_bundle import Broken, verify


@pytest.fixture
def api(url):
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": AGENTS["agent.ada"]}) as client:
        yield client


@pytest.fixture
def key(api) -> str:
    return api.get("/server/keys").json()["keys"][0]["did"]


@pytest.fixture
def small(api) -> bytes:
    """The bundle of an intent with a few lines."""
    made = api.post("/intents", json={"title": "small", "state": {"n": [0.1, 1e21, 1e-7, "é"]}}).json()["id"]
    channel = api.post(f"/intents/{made}/channels", json={"name": "talk"}).json()["id"]
    api.post(f"/channels/{channel}/messages", json={"sender": "agent.ada", "payload": {"text": "“hi”\u0001\n"}})
    return api.get(f"/intents/{made}/export").content


@pytest.fixture
def full(api, operator, developer, url) -> bytes:
    """The bundle of an intent with checkpoints, money, a child and a decision."""
    made = api.post("/intents", json={"title": "full"}).json()["id"]
    channel = api.post(f"/intents/{made}/channels", json={"name": "talk", "options": {"audit": True}}).json()["id"]
    for n in range(5):
        api.post(f"/channels/{channel}/messages", json={"sender": "agent.ada", "payload": {"n": n / 3}})
    api.post(f"/intents/{made}/costs", json={"cost_type": "tokens", "amount": "0.25", "unit": "USD"})
    api.post("/intents", json={"title": "below", "parent_id": made})
    question = {
        "synopsis": "Ship it today.",
        "findings": ["Checks pass."],
        "recommendations": ["Ship."],
        "offer": "Ask for detail.",
        "question": {
            "stem": "Which day should the bundle ship?",
            "options": [{"label": "Today", "reasoning": "Ready."}, {"label": "Later", "reasoning": "Rest."}],
            "recommended_idx": 0,
        },
    }
    moment = api.post("/moments", json={"principal_id": DEVELOPER, "binding_moment": question, "intent_id": made}).json()
    answer = {"envelope_digest": moment["envelope_digest"], "resolution": {"kind": "option", "option_idx": 1}}
    developer.post(f"/moments/{moment['id']}/resolution", json=answer).raise_for_status()
    headers = {"X-API-Key": operator}
    taken = httpx.post(f"{url}/api/v1/admin/checkpoints", headers=headers, json={"intent_id": made})
    assert taken.status_code == 201, taken.text
    return api.get(f"/intents/{made}/export").content


def both_refuse(forged: bytes, file: Path):
    """Asserts that neither verifier takes this for a bundle: a forgery that one of them overlooks is a defect of that one."""
    with pytest.raises(Broken):
        verify(forged.splitlines(keepends=True))
    file.write_bytes(forged)
    ours = subprocess.run([PROGRAM, "verify", file], capture_output=True, text=True, check=False)
    assert ours.returncode == 1, (ours, forged)


def test_a_verifier_of_its_own_reads_a_bundle(full, key, tmp_path):
    file = tmp_path / "intent.bundle"
    file.write_bytes(full)
    done = subprocess.run([sys.executable, VERIFIER, file, "--server-key", key], capture_output=True, text=True, check=True)
    for part in ("10 × event", "5 × message", "1 × checkpoint", "1 × cost", "1 × decision", "1 × child", f"signed by {key}"):
        assert part in done.stdout, (part, done.stdout)
    other = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
    done = subprocess.run([sys.executable, VERIFIER, file, "--server-key", other], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "another key" in done.stderr


def test_changed_bytes_are_noticed(small, tmp_path):
    assert verify(small.splitlines(keepends=True)).seal
    # All bytes of the seal's signature, and some of each line; the law `bundles::each_byte_of_a_file_counts` tries all of them.
    for at in [*range(0, len(small), 11), *range(len(small) - 100, len(small))]:
        other = bytes([small[at] ^ (1, 0x20, 0x04, 0x11)[at % 4]])
        both_refuse(small[:at] + other + small[at + 1 :], tmp_path / "forged.bundle")


def test_each_line_counts(full, tmp_path):
    lines = full.splitlines(keepends=True)
    verify(lines)
    for at, line in enumerate(lines):
        for forged in (
            lines[:at],
            lines[:at] + lines[at + 1 :],
            [*lines[:at], line, *lines[at:]],
            [*lines[:at], *reversed(lines[at : at + 2]), *lines[at + 2 :]] if at + 1 < len(lines) else lines + [b"{}\n"],
        ):
            both_refuse(b"".join(forged), tmp_path / "forged.bundle")


def attested(tmp_path, envelope: dict, key: str) -> dict:
    """Returns the statement that the public packages read, or raises."""
    file = tmp_path / "envelope.json"
    file.write_text(json.dumps(envelope))
    assert DSSE.exists(), "install them first: scripts/setup.sh"
    program = Path(__file__).with_name("dsse.py")
    done = subprocess.run([DSSE, program, file, key], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(done.stderr)
    return json.loads(done.stdout)


def test_public_packages_verify_seals_and_receipts(full, key, api, tmp_path):
    *lines, seal = full.splitlines(keepends=True)
    statement = attested(tmp_path, json.loads(seal), key)
    (subject,) = statement["subject"]
    assert subject["digest"]["sha256"] == hashlib.sha256(b"".join(lines)).hexdigest()
    assert (statement["predicateType"], statement["predicate"]["counts"]["message"]) == ("urn:entente:bundle:1", 5)
    decision = next(line["body"] for line in map(json.loads, lines) if line["kind"] == "decision")
    receipt = attested(tmp_path, decision["receipt"], key)
    assert receipt["subject"][0]["digest"]["sha256"] == decision["digest"].removeprefix("sha256:")
    assert receipt["predicate"]["resolution"]["option_idx"] == 1
    assert api.get(f"/moments/{decision['moment_id']}/receipt").json() == decision["receipt"]
    forged = json.loads(seal)
    forged["signatures"][0]["sig"] = decision["receipt"]["signatures"][0]["sig"]
    with pytest.raises(Broken, match="(?i)signature"):
        attested(tmp_path, forged, key)

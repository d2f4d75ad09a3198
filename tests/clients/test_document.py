# The OpenAPI document under a fuzzer, Schemathesis: two principals send random requests, and each response has a status, a
# content type and a body that the document names.

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from conftest import AGENTS, PROGRAM, SERVICE, serving

HOOKS = Path(__file__).parent / "fuzzing"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# Random requests for each operation, besides those that cover each parameter's bounds.
EXAMPLES = int(os.environ.get("ENTENTE_FUZZ_EXAMPLES", "60"))
REQUESTS = 20_000
# One seed for all runs of the suite: another one searches elsewhere, which is for whoever looks for defects.
SEED = os.environ.get("ENTENTE_FUZZ_SEED", "1")
# Streams never end, and a revoked or rotated API key would end the run.
SKIPPED = "/subscribe|/stream$|/jobs/events$|^/api/v1/keys/"
RUN_LIMIT = 1500


def requests(report: Path) -> Counter:
    """Counts the responses of a run by their status."""
    statuses = Counter()
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder") or {}
        for exchange in (recorder.get("interactions") or {}).values():
            statuses[(exchange.get("response") or {}).get("status_code")] += 1
    return statuses


def test_every_response_is_as_the_document_says(tmp_path):
    document = tmp_path / "entente.json"
    document.write_bytes(subprocess.run([PROGRAM, "openapi"], check=True, capture_output=True).stdout)
    # Without a limit of rates, because a fuzzer would only learn that there is one.
    with serving(ENTENTE_RATE_LIMIT="0") as url:
        command = [
            *(Path(sys.executable).with_name("st"), "run", document, "--url", url, "--checks", CHECKS),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES)),
            *("--exclude-path-regex", SKIPPED, "--continue-on-failure", "--no-shrink", "--seed", SEED),
            # Threads of one process get in each other's way: CPython 3.11 counts the depth of its parser for all of them together.
            *("--workers", "1"),
            *("--request-timeout", "20", "--warnings", "off", "--suppress-health-check", "all"),
            *("--generation-database", "none", "--report", "ndjson", "--report-ndjson-path", tmp_path / "run.ndjson"),
        ]
        keys = ",".join([AGENTS["agent.ada"], SERVICE])
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"FUZZ_KEYS": keys, "FUZZ_SEED": SEED, "SCHEMATHESIS_HOOKS": "fuzz_hooks", "PYTHONPATH": str(HOOKS)},
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT,
        )
    assert done.returncode == 0, re.sub(r"[^\n]{2000,}", "(a long line)", done.stdout)[-30_000:]
    statuses = requests(tmp_path / "run.ndjson")
    assert statuses.total() >= REQUESTS, statuses
    # The run is worth something: a good part of the requests succeeds.
    assert sum(count for status, count in statuses.items() if status and status < 300) > REQUESTS // 20, statuses

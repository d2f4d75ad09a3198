# The files for operators in deploy/, compose.yaml and the workflows, each checked with the tool of its kind.

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOOLS = Path(sys.executable).parent
# Kubernetes: the oldest release with everything that the manifests use, and the newest that the validator knows.
KUBERNETES = ["1.34", "1.37"]
# Exposure of the unit by systemd's measure, times ten: 0 is sealed off, 100 unsafe.
EXPOSURE = 20


def run(*words, cwd=ROOT) -> str:
    done = subprocess.run(words, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def tool(name: str) -> str:
    """Returns a program of the system; scripts/setup.sh installs it on Linux."""
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if not found and sys.platform != "linux":
        pytest.skip(f"{name} is not on this system")
    assert found, f"{name} is missing: make setup"
    return found


def registered() -> set[str]:
    """Returns the names of the series that a server has, from the code that registers them."""
    source = (ROOT / "crates" / "runtime" / "src" / "metrics.rs").read_text()
    fields = dict(re.findall(r"^    pub(?:\(crate\))? (\w+): (.*),$", source, re.M))
    # What it was built from has a value for each label instead of a field.
    assert 'registry.register("build", ' in source
    names = {"entente_build_info"}
    for collector in ("pools.rs", "levels.rs"):
        text = (ROOT / "crates" / "runtime" / "src" / "metrics" / collector).read_text()
        found = re.findall(r'\b(?:family|encode_descriptor)\(\s*"(\w+)"', text)
        assert found, collector
        names |= {f"entente_{name}" for name in found}
        names |= {f"entente_{name}_seconds" for name in re.findall(r'\bage\("(\w+)"', text)}
    calls = re.findall(r'registry\.register(_with_unit)?\(\s*"(\w+)",[^;]*?(?:metrics|self)\.(\w+)\.clone\(\)', source, re.S)
    assert len(calls) > 20
    for unit, name, field in calls:
        name = f"entente_{name}" + ("_seconds" if unit else "")
        if "Counter" in fields[field]:
            names.add(f"{name}_total")
        elif "Histogram" in fields[field]:
            names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            names.add(name)
    return names


def series(expression: str) -> set[str]:
    return set(re.findall(r"\bentente_\w+", expression))


def board() -> list[dict]:
    panels = json.loads((DEPLOY / "grafana" / "entente.json").read_text())["panels"]
    return [panel for panel in panels if panel["type"] != "row"]


def test_the_workflows_are_sound():
    run(TOOLS / "actionlint", "-no-color")


def test_the_actions_are_pinned_by_commit():
    used = [line for path in (ROOT / ".github" / "workflows").glob("*.yml") for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    for line in used:
        assert re.fullmatch(r"\s*-?\s*uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", line), line


def test_the_unit_is_valid_and_sealed_off(tmp_path):
    unit = tmp_path / "entente.service"
    # The program need not be installed here.
    unit.write_text((DEPLOY / "systemd" / "entente.service").read_text().replace("/usr/local/bin/entente", "/bin/true"))
    assert not run(tool("systemd-analyze"), "verify", unit).strip()
    run(tool("systemd-analyze"), "security", "--offline=true", f"--threshold={EXPOSURE}", unit)


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_manifests_are_valid(version):
    run(TOOLS / "kubernetes-validate", "--strict", "--kubernetes-version", version, DEPLOY / "kubernetes" / "entente.yaml")


def test_the_manifests_stop_after_the_server_has_drained():
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "entente.yaml").read_text()))
    [pod] = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment"]
    [container] = pod["containers"]
    drain = int(re.search(r"^ENTENTE_DRAIN_SECONDS=(\d+)", (ROOT / ".env.example").read_text(), re.M)[1])
    assert pod["terminationGracePeriodSeconds"] > container["lifecycle"]["preStop"]["sleep"]["seconds"] + drain
    # No secret is in a manifest: they name the Secret that the operator creates.
    assert {document["kind"] for document in documents}.isdisjoint({"Secret"})


def test_compose_has_no_password_and_opens_nothing():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    server, database = services["entente"], services["postgres"]
    assert [port.split(":")[0] for port in server["ports"]] == ["127.0.0.1"]
    assert "ports" not in database
    for environment in (server["environment"], database["environment"]):
        for name, value in environment.items():
            assert not re.search("PASSWORD|KEY", name) or value.startswith("${"), name
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        run("docker", "compose", "config", "--quiet")


def test_the_alerts_ring_when_they_should():
    promtool = tool("promtool")
    run(promtool, "check", "config", "scrape.yml", cwd=DEPLOY / "prometheus")
    run(promtool, "test", "rules", "alerts.test.yml", cwd=DEPLOY / "prometheus")


def test_alerts_and_board_use_series_that_exist():
    known = registered()
    alerts = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    expressions = [rule["expr"] for rule in alerts]
    expressions += [target["expr"] for panel in board() for target in panel["targets"]]
    used = set().union(*map(series, expressions))
    assert used <= known, used - known


def test_the_board_has_valid_expressions(tmp_path):
    """promtool reads rules, so each expression of the board becomes one."""
    expressions = [target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*") for panel in board() for target in panel["targets"]]
    rules = [{"record": f"entente:panel:{number}", "expr": expression} for number, expression in enumerate(expressions)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    run(tool("promtool"), "check", "rules", tmp_path / "rules.yml")


def test_the_board_overlaps_nowhere():
    taken = set()
    for panel in board():
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_the_notes_of_a_release_need_its_version(tmp_path):
    """`scripts/notes.sh` refuses a version that Cargo.toml or the changelog does not have."""
    for version in ("99.0.0", ""):
        done = subprocess.run([ROOT / "scripts" / "notes.sh", version], capture_output=True, text=True)
        assert done.returncode != 0 and not done.stdout, version

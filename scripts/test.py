#!/usr/bin/env python3
"""Runs the test suite step by step, and prints the duration of each step and the ten slowest tests.

    scripts/test.py [--again] [--setup] [STEP ...]        steps: see STEPS and MORE; defaults to all of STEPS

With --again each failed test is repeated alone after its step. A test that passes then is printed under FLAKY with the log of its failure;
more than two flaky tests, or one that fails again, fail the run. With --setup missing tools are installed beside the first steps.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
PACKAGING = ROOT / ".venv" / "packaging" / "bin" / "python"
PAGES = ROOT / "tests" / "web"
TYPESCRIPT = ROOT / "clients" / "typescript"
# The tests' own Node.js.
NODE = PAGES / "node_modules" / ".bin" / "node"
# Foreign client that computes for as long as all others together.
FUZZER = "tests/clients/test_document.py"
# Tests of our own Python client, and of what it has for agent frameworks, which need environments of their own.
OWN_CLIENT = "clients/python/tests"
FRAMEWORKS = f"{OWN_CLIENT}/frameworks"

# Flaky tests tolerated by a run with --again.
FLAKY_LIMIT = 2
# Failing tests that are repeated: more of them are no coincidence, and would exceed the run's time.
AGAIN_LIMIT = 10
# Time limit in seconds for a repeated test: a test that hangs fails, and the run ends in time.
AGAIN_SECONDS = 300
SLOWEST = 10
# Concurrent tests of one program. They wait for a third of their time and more: with one more than the number of cores, two
# cores idled for a fifth of the time.
THREADS = 2 * (os.cpu_count() or 1)
# Time limit in seconds for one file of tests in JavaScript.
PAGE_SECONDS = 600
# Files of servers under test are kept in memory if there is room: on a disk, creating them would take most of the time.
MEMORY = Path("/dev/shm")
ROOM = 2 << 30
# Lines of a failure's log that the summary repeats.
LOG_LINES = 60


class Failure:
    """A failed test, the log of its failure, and the command that runs it alone."""

    def __init__(self, name, log, alone, cwd=ROOT):
        self.name, self.log, self.alone, self.cwd = name, log, alone, cwd


class Setup:
    """scripts/setup.sh, beside the steps that compile: it mostly waits for downloads. On a terminal it may ask, and comes first."""

    def __init__(self):
        self.began = time.monotonic()
        self.log = tempfile.TemporaryFile()
        words = [ROOT / "scripts" / "setup.sh"]
        if sys.stdin.isatty():
            subprocess.run(words, cwd=ROOT, check=True)
        self.child = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def finish(self):
        """Waits for its end, and ends the run if it fails: no step after it could pass."""
        waited = time.monotonic()
        status = self.child.wait()
        self.log.seek(0)
        print(self.log.read().decode(errors="replace"), end="", flush=True)
        if status != 0:
            sys.exit(f"=== FAILED: scripts/setup.sh ended with {status}, so no test could run")
        now = time.monotonic()
        print(f"\n=== everything is installed; it took up to {now - self.began:.0f} s, of which {now - waited:.0f} s were waited for", flush=True)


class Run:
    """Results of one run of the suite."""

    def __init__(self, again):
        self.again, self.began = again, time.monotonic()
        self.steps, self.tests, self.flaky, self.broken = [], [], [], []

    def step(self, name, work):
        print(f"\n=== {name} ({free_space()})", flush=True)
        began = time.monotonic()
        try:
            failures = work(self)
        except subprocess.CalledProcessError as error:
            # The step's program failed without naming a test: the compiler, a linter, a crash.
            failures = []
            self.broken.append(f"{name} ({error})")
        self.judge(failures)
        self.steps.append((time.monotonic() - began, name))

    def judge(self, failures):
        for failure in failures:
            if not self.again or len(failures) > AGAIN_LIMIT:
                self.broken.append(failure.name)
                continue
            print(f"\n=== again, alone: {failure.name}", flush=True)
            if passes(failure):
                self.flaky.append(failure)
            else:
                self.broken.append(failure.name)

    def report(self):
        print(f"\n=== the {SLOWEST} slowest tests")
        for seconds, name in sorted(self.tests, reverse=True)[:SLOWEST]:
            print(f"{seconds:8.1f} s  {name}")
        print("\n=== the steps")
        for seconds, name in self.steps:
            print(f"{seconds:8.1f} s  {name}")
        print(f"{time.monotonic() - self.began:8.1f} s  in all, {len(self.tests)} tests; some steps ran beside each other")
        if self.flaky:
            print("\n=== FLAKY: failed once, passed alone")
        for failure in self.flaky:
            print(f"\n--- {failure.name}\n" + "\n".join(failure.log.splitlines()[-LOG_LINES:]))
        if self.broken:
            print("\n=== FAILED\n" + "\n".join(self.broken))
        if len(self.flaky) > FLAKY_LIMIT:
            print(f"\n{len(self.flaky)} flaky tests; {FLAKY_LIMIT} are the most that a run puts up with.")
        return not self.broken and len(self.flaky) <= FLAKY_LIMIT


def scratch():
    """Returns the directory for temporary files, as an environment variable (`tests/harness/src/peers/scratch.rs` does the
    same)."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return {}
    there = os.statvfs(MEMORY)
    return {"TMPDIR": str(MEMORY)} if there.f_bavail * there.f_frsize >= ROOM else {}


def free_space():
    """Returns the free space of the disk as text: a full disk looks like a defect of the compiler."""
    return f"{shutil.disk_usage(ROOT).free / (1 << 30):.1f} GiB free"


def passes(failure):
    """Runs a failed test alone, and returns whether it passes."""
    child = subprocess.Popen(failure.alone, cwd=failure.cwd, env=os.environ | scratch(), start_new_session=True)
    try:
        return child.wait(AGAIN_SECONDS) == 0
    except subprocess.TimeoutExpired:
        print(f"\n=== not done after {AGAIN_SECONDS} s: {failure.name}", flush=True)
        return False
    finally:
        # Includes servers and browsers that the test left behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def command(*words, cwd=ROOT, **environment):
    """Runs a command without named tests; its failure fails the step."""
    subprocess.run(words, cwd=cwd, check=True, env=os.environ | environment)


def lines_of(words, cwd=ROOT, **environment):
    """Runs a command and forwards its output; returns all of the output, and the exit status."""
    child = subprocess.Popen(words, cwd=cwd, env=os.environ | scratch() | environment, stdout=subprocess.PIPE, text=True, errors="replace")
    said = []
    for line in child.stdout:
        print(line, end="", flush=True)
        said.append(line)
    return "".join(said), child.wait()


def lint(_run):
    command("make", "lint")
    return []


def build(_run):
    """Compiles the tests, and with them the program that the other steps run."""
    command("cargo", "test", "--workspace", "--no-run")
    # Where features differ for tests alone, the program would be compiled again, with nearly every crate below it.
    said = subprocess.run(["cargo", "build", "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = [line for line in map(json.loads, said.splitlines()) if line["reason"] == "compiler-artifact"]
    if twice := [line["target"]["name"] for line in artifacts if not line["fresh"]]:
        print("compiled for `cargo test`, and again for `cargo build`: " + ", ".join(twice) + "; give both the same features in Cargo.toml")
        raise subprocess.CalledProcessError(1, "cargo build")
    return []


# libtest's line for a finished test, with the time that `--report-time` adds.
FINISHED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)(?:, .*)? <([\d.]+)s>$", re.M)


def rust(run):
    """Runs the Rust tests, one program after the other."""
    listed = subprocess.run(
        ["cargo", "test", "--workspace", "--no-run", "--quiet", "--message-format=json-render-diagnostics"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    failures = []
    for artifact in map(json.loads, filter(None, listed.splitlines())):
        if not artifact.get("executable") or not artifact["profile"]["test"]:
            continue
        failures += program(run, Path(artifact["executable"]), Path(artifact["manifest_path"]).parent)
    return failures


def program(run, path, package):
    """Runs one test program, and records its tests' times and failures."""
    kind = re.sub(r"-[0-9a-f]{16}$", "", path.name)
    print(f"\n--- {kind}", flush=True)
    # Reporting times is an unstable option of the standard test runner; this setting enables it in the pinned compiler.
    timed = {"RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": str(package)}
    said, status = lines_of(
        [path, "-Z", "unstable-options", "--report-time", f"--test-threads={THREADS}"], cwd=package, **timed
    )
    failures = []
    for name, verdict, seconds in FINISHED.findall(said):
        run.tests.append((float(seconds), f"{kind} {name}"))
        if verdict == "FAILED":
            log = re.search(rf"^---- {re.escape(name)} std(?:out|err) ----$(.*?)(?=^---- \S+ std|^failures:$)", said, re.M | re.S)
            failures.append(Failure(f"{kind} {name}", log.group(1) if log else said, [path, "--exact", name, "--nocapture"], package))
    if status != 0 and not failures:
        raise subprocess.CalledProcessError(status, kind)
    return failures


# The benchmark's line for a scene; see `benches/load/main.rs`.
SCENE = re.compile(r"^scene (\S+) (ok|skipped|FAILED) <([\d.]+)s>(.*)$", re.M)


def bench(run):
    """Tries each scene of the load benchmark for about a second, with the unoptimised server."""
    # As a test it has the tests' profile, where `cargo bench` would build a release; with the whole workspace it has
    # the features that the steps before have compiled.
    smoke = ["cargo", "test", "--quiet", "--workspace", "--bench", "load", "--", "--smoke"]
    said, status = lines_of(smoke)
    found, failures = SCENE.findall(said), []
    for name, verdict, seconds, reason in found:
        run.tests.append((float(seconds), f"bench {name}"))
        if verdict == "FAILED":
            failures.append(Failure(f"bench {name}", reason, [*smoke, name]))
    if not found or (status != 0 and not failures):
        raise subprocess.CalledProcessError(status, "bench")
    return failures


def cases(report):
    """Yields each test case of a JUnit report: its element, name, seconds, and a failure's text or None."""
    # A failure's text may have control characters, such as colours, which XML has not.
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", Path(report).read_text(errors="replace"))
    for case in xml.fromstring(text).iter("testcase"):
        wrong = next((child for kind in ("failure", "error") for child in case.iter(kind)), None)
        log = None if wrong is None else "\n".join(filter(None, [wrong.get("message"), wrong.text]))
        yield case, case.get("name"), float(case.get("time") or 0), log


def clients(run):
    """Runs the unmodified foreign clients and our own against real servers; the fuzzer computes beside the others, which mostly wait."""
    command("cargo", "build", "--quiet")
    selections = [
        lambda: pytest(run, [FUZZER]),
        lambda: pytest(run, ["tests/clients", f"--ignore={FUZZER}"]),
        lambda: pytest(run, [OWN_CLIENT, f"--ignore={FRAMEWORKS}"]),
        lambda: typescript(run),
    ]
    # The shorter ones come after the two long ones, not beside both.
    with ThreadPoolExecutor(max_workers=2) as pool:
        return [failure for failures in pool.map(lambda chosen: chosen(), selections) for failure in failures]


def frameworks(run):
    """Runs agents of real frameworks; not a part of `make test`, because installing them takes minutes and 2 GB."""
    command("cargo", "build", "--quiet")
    pythons = [ROOT / ".venv" / name / "bin" / "python" for name in ("frameworks", "crewai")]
    return [failure for python in pythons for failure in pytest(run, [FRAMEWORKS], python)]


def typescript(run):
    """Compiles our client in TypeScript, and runs its tests."""
    command(NODE, TYPESCRIPT / "node_modules" / "typescript" / "bin" / "tsc", "-p", TYPESCRIPT)
    # A client that a failed test left running must not keep the program.
    return node(run, TYPESCRIPT / "test", "index.test.js", "typescript", "--test-force-exit")


def pytest(run, chosen, python=PYTHON):
    """Runs tests in Python, and records their times and failures."""
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        _, status = lines_of([python, "-m", "pytest", "-q", f"--rootdir={ROOT}", *chosen, f"--junitxml={report}"])
        if not report.exists():
            raise subprocess.CalledProcessError(status, "pytest")
        for case, name, seconds, log in cases(report):
            test = "/".join(case.get("classname").split(".")) + f".py::{name}"
            run.tests.append((seconds, test))
            if log is not None:
                failures.append(Failure(test, log, [python, "-m", "pytest", "-q", f"--rootdir={ROOT}", test]))
    if status != 0 and not failures:
        raise subprocess.CalledProcessError(status, "pytest")
    return failures


def packaging(run):
    """Packs the unoptimised program as a release is packed, runs it in empty places, and checks the files for operators."""
    command("cargo", "build", "--quiet")
    return pytest(run, ["tests/packaging"], PACKAGING)


def web(run):
    """Runs the tests of the pages in a real browser, one file after the other."""
    command("cargo", "build", "--quiet")
    return [failure for path in sorted(PAGES.glob("*.test.js")) for failure in node(run, PAGES, path.name, "web")]


def node(run, folder, file, label, *more):
    """Runs one file of tests in JavaScript, and records its tests' times and failures."""
    words = [NODE, "--test", *more, "--test-concurrency=1", f"--test-timeout={PAGE_SECONDS * 1000}"]
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        said = ["--test-reporter=spec", "--test-reporter-destination=stdout"]
        kept = ["--test-reporter=junit", f"--test-reporter-destination={report}"]
        _, status = lines_of([*words, *said, *kept, file], cwd=folder)
        if not report.exists():
            raise subprocess.CalledProcessError(status, file)
        for _, name, seconds, log in cases(report):
            run.tests.append((seconds, f"{label} {name}"))
            if log is not None:
                # The failure of a whole file carries the file's name.
                only = [] if name == file else [f"--test-name-pattern=^{re.escape(name)}$"]
                failures.append(Failure(f"{label} {name}", log, [*words, *only, file], folder))
    if status != 0 and not failures:
        raise subprocess.CalledProcessError(status, file)
    return failures


# Steps that need only the compiler and PostgreSQL's programs.
COMPILING = ("lint", "build")
# Steps that mostly wait, for processes and clocks; they run at once. Pages do not, because a browser has time limits, and
# packaging does not, because maturin moves the program that the others start, and copies it back.
WAITING = ("bench", "clients")
# The longest of the waiting ones comes first, and the other one beside it.
STEPS = {"lint": lint, "build": build, "rust": rust, "clients": clients, "bench": bench, "packaging": packaging, "web": web}
# Steps that run only when they are named.
MORE = {"frameworks": frameworks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="run a failed test once more, alone")
    parser.add_argument("--setup", action="store_true", help="install missing tools beside the steps that compile")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS | MORE))
    asked = parser.parse_args()
    if unknown := [name for name in asked.steps if name not in STEPS | MORE]:
        parser.error(f"{', '.join(unknown)}: there are {', '.join(STEPS | MORE)}")
    run, setup = Run(asked.again), Setup() if asked.setup else None
    chosen = asked.steps or list(STEPS)
    for name in (name for name in chosen if name in COMPILING):
        run.step(name, STEPS[name])
    if setup:
        setup.finish()
    for name in (name for name in chosen if name == "rust"):
        run.step(name, STEPS[name])
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda name: run.step(name, STEPS[name]), [name for name in chosen if name in WAITING]))
    for name in (name for name in chosen if name not in (*COMPILING, "rust", *WAITING)):
        run.step(name, (STEPS | MORE)[name])
    sys.exit(0 if run.report() else 1)


if __name__ == "__main__":
    main()

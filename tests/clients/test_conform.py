# `entente conform` on the reference servers, unmodified, and on this one in its default mode: the scores are those of
# docs/conform.md. tests/it/cli/conform.rs has this server in all protocols.

import json
import subprocess
import threading
import xml.etree.ElementTree as xml
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conform_kit import PAGE, REFERENCES, SCORES, all_checked, ours, page, scores
from conftest import PROGRAM

KEPT = json.loads(SCORES.read_text())


@pytest.fixture(scope="module")
def found(url):
    # OpenIntent alone: the others need a worker.
    return scores(all_checked([*REFERENCES, ours(url)[0]]))


@pytest.mark.parametrize("title", [*(server.title for server in REFERENCES), "Entente: openintent"])
def test_a_server_has_its_score(found, title):
    assert found[title] == KEPT[title]


def test_the_page_shows_the_scores():
    assert PAGE.read_text() == page(KEPT), "make conform"


class Hostile(BaseHTTPRequestHandler):
    """Answers everything with what has no place in XML."""

    def do_GET(self):
        body = "</failure><!-- & \"]]>\x00\x1b\ufffeü 🦀".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("protocol", ["openintent", "mcp"])
def test_the_file_for_continuous_integration_is_xml(tmp_path, protocol):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    file, url = tmp_path / "results.xml", f"http://127.0.0.1:{server.server_port}"
    words = [PROGRAM, "conform", url, f"--protocol={protocol}", "--json", f"--junit={file}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    server.shutdown()
    checks = json.loads(done.stdout)["checks"]
    assert done.returncode == 1, done.stderr
    suites = xml.parse(file).getroot().findall("testsuite")
    of = lambda result: sum(1 for check in checks if check["result"] == result)
    total = lambda name: sum(int(suite.get(name)) for suite in suites)
    assert (total("tests"), total("failures"), total("skipped")) == (len(checks), of("failed"), of("skipped"))
    cases = [case for suite in suites for case in suite.findall("testcase")]
    assert len({case.get("name") for case in cases}) == len(checks)
    assert [case.find("failure") is not None for case in cases].count(True) == of("failed") > 0

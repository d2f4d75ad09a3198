# The `arcp` command of ARCP's Python package, as used in a shell (ARCP-W-10.1).

import json

from arcp_kit import ADA, cli, rest


def test_submit_prints_the_result(served):
    lease = '{"cost.budget":["USD:1.00"]}'
    done = cli(served, "submit", f"--token={ADA}", "--agent=echo", '--input={"x":1}', f"--lease={lease}")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["final_status"] == "success" and said["result"] == {"echoed": {"x": 1}, "by": "echo@2.0.0"}


def test_an_agent_that_nobody_knows(served):
    done = cli(served, "submit", f"--token={ADA}", "--agent=nope")
    assert done.returncode == 1 and "AgentNotAvailableError" in done.stderr


def test_a_bad_token(served):
    done = cli(served, "submit", "--token=bad", "--agent=echo")
    assert done.returncode == 1 and "UnauthenticatedError" in done.stderr


def test_tail_of_a_job_that_is_over_ends(served):
    accepted = rest(served, ADA, "POST", "/jobs", {"agent": "counter", "input": {"to": 3}})
    first = cli(served, "tail", f"--token={ADA}", f"--job-id={accepted['job_id']}")
    again = cli(served, "tail", f"--token={ADA}", f"--job-id={accepted['job_id']}")
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    *events, result = [json.loads(line) for line in again.stdout.splitlines()]
    assert [event["body"]["message"] for event in events] == ["0", "1", "2"]
    assert result["final_status"] == "success" and result["result"] == 3
    assert first.stdout == again.stdout

//! Runs the program's own commands, including workers, as processes against a server on the system clock.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::peers::process::Place;
use crate::peers::program::entente;
use crate::{ANY, Client, Value, World};

/// Upper bound for anything that the tests wait for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Script of the test agents; it selects its behaviour by the agent's name.
pub const AGENTS: &str = r#"
read -r input
say() { printf '%s\n' "$1"; }
case "$ENTENTE_AGENT" in
echo@*) say "{\"result\":$input}" ;;
filter@*) say "$input"; cat ;;
chatty@*)
  say '{"kind":"progress","body":{"current":1,"total":2,"units":"files"}}'
  say 'a line of the log'
  say '{"kind":"nonsense","body":{}}'
  say '{"first":1}'
  echo 'a complaint' >&2
  say "{\"job\":\"$ENTENTE_JOB_ID\",\"attempt\":$ENTENTE_ATTEMPT,\"lease\":$ENTENTE_LEASE,\"budget\":$ENTENTE_BUDGET,\
\"trace\":\"$TRACEPARENT\",\"key\":\"${ENTENTE_API_KEY-none}\"}" ;;
asker@*)
  ask() {
    say "{\"authorize\":{\"capability\":\"tool.call\",\"target\":\"$1\",\"call_id\":\"$2\"}}"
    read -r answer; answers="$answers,$answer"
  }
  pay() { say "{\"kind\":\"metric\",\"body\":{\"name\":\"cost.tool\",\"value\":$1,\"unit\":\"USD\"}}"; }
  ask search.web c1; pay 0.58; ask mail.send c2; pay 0.42; ask search.web c3
  say "{\"result\":[${answers#,}]}" ;;
large@*) printf '{"result":"%s"}\n' "$(head -c 900000 /dev/zero | tr '\0' x)" ;;
failing@*) say '{"error":{"code":"PERMISSION_DENIED","message":"the door is locked"}}' ;;
crashing@*) echo 'it broke' >&2; exit 7 ;;
counter@*) i=0; while [ $i -lt 40 ]; do say "$i of many"; i=$((i+1)); sleep 0.1; done; say '{"result":"counted"}' ;;
walker@*)
  # Walks ten steps from where the attempt before it stopped, and stops for good at the fifth of the first attempt.
  step=$ENTENTE_CHECKPOINT; [ "$step" = null ] && step=0; from=$step
  while [ $step -lt 10 ]; do
    step=$((step+1)); say "{\"checkpoint\":$step}"; say "{\"kind\":\"progress\",\"body\":{\"current\":$step}}"
    [ $step = 5 ] && [ "$from" = 0 ] && { echo $$ > "$PLACE/pid"; while :; do sleep 0.1; done; }
  done
  say "{\"result\":{\"from\":$from,\"to\":$step}}" ;;
flaky@*) if [ $ENTENTE_ATTEMPT = 1 ]; then say '{"checkpoint":{"n":1}}'; exit 1; fi; say "{\"result\":$ENTENTE_CHECKPOINT}" ;;
brief@*) sleep 1; say '{"result":"in time"}' ;;
polite@*)
  # The shell reports its child's end on a pipe that nobody reads any more once the worker was killed.
  trap '' PIPE
  trap 'echo told > "$PLACE/told"; exit 0' TERM
  echo $$ > "$PLACE/pid"
  say '{"kind":"status","body":{"phase":"asleep"}}'
  while :; do sleep 0.1; done ;;
reader@*) cat ;;
listener@*)
  # Acts on the first signal, and on the second one only in the second attempt.
  while read -r line; do
    seq=$(printf '%s' "$line" | sed 's/.*"seq":\([0-9]*\).*/\1/')
    say "{\"kind\":\"status\",\"body\":{\"phase\":\"signal $seq\"}}"
    if [ "$seq" = 1 ]; then say '{"ack":1}'
    elif [ -e "$PLACE/second" ]; then say '{"ack":2}'; say '{"result":"both"}'; exit
    else echo reached > "$PLACE/second"; fi
  done ;;
family@*)
  sleep 300 &
  echo $! > "$PLACE/child"
  echo $$ > "$PLACE/parent"
  wait ;;
stubborn@*)
  trap '' TERM
  echo $$ > "$PLACE/pid"
  say '{"kind":"status","body":{"phase":"asleep"}}'
  while :; do sleep 0.1; done ;;
esac
"#;

/// A server, with access to its command line.
pub struct Desk {
    pub url: String,
    pub place: Place,
    pub client: Client,
}

impl Desk {
    pub fn of(world: &World) -> Self {
        Self { url: format!("http://{}", world.address), place: Place::new("worker"), client: world.any() }
    }

    pub fn command(&self, key: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(entente());
        command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("ENTENTE_URL", &self.url).env("ENTENTE_API_KEY", key).env("PLACE", &self.place.0);
        command.current_dir(&self.place.0);
        command
    }

    /// Runs a command until it exits.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(ANY, arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs a command with `--json`, asserts success and returns the parsed output.
    pub async fn told(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat()).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Submits a job and returns the accepted job.
    pub async fn submit(&self, agent: &str, arguments: &[&str]) -> Value {
        self.told(&[&["job", "submit", "--agent", agent], arguments].concat()).await
    }

    /// Submits a job and follows it. Returns its envelopes and the exit status.
    pub async fn follow(&self, agent: &str, arguments: &[&str]) -> (Vec<Value>, i32) {
        let submit = ["job", "submit", "--agent", agent, "--follow", "--json"];
        let output = self.run(&[&submit, arguments].concat()).await;
        let lines = String::from_utf8(output.stdout).unwrap();
        let envelopes = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (envelopes, output.status.code().unwrap())
    }

    /// Returns a job's events so far.
    pub async fn events(&self, id: &str) -> Vec<Value> {
        let output = self.run(&["job", "events", id, "--json"]).await;
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until a job has this status.
    pub async fn until(&self, id: &str, status: &str) -> Value {
        let began = Instant::now();
        loop {
            let job = self.told(&["job", "show", id]).await;
            if job["current_status"] == status {
                return job;
            }
            assert!(began.elapsed() < PATIENCE, "not {status}: {job}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a file exists and returns its first line.
    pub async fn file(&self, name: &str) -> String {
        let began = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(self.place.0.join(name))
                && let Some(line) = text.lines().next()
            {
                return line.to_owned();
            }
            assert!(began.elapsed() < PATIENCE, "no {name}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts a worker for these agents and waits until it is ready.
    pub async fn worker(&self, agents: &[&str], arguments: &[&str]) -> Hand {
        let log = self.place.0.join(format!("worker-{}.log", agents.concat()));
        let named: Vec<String> = agents.iter().map(|agent| format!("--agent={agent}@1.0.0")).collect();
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        let run = [&["worker", "--exec", AGENTS, "--kill-seconds", "1"], &named[..], arguments].concat();
        let mut command = self.command(ANY, &run);
        let child = command.stderr(fs::File::create(&log).unwrap()).stdout(Stdio::null()).spawn().unwrap();
        let hand = Hand { child, log };
        let began = Instant::now();
        while !hand.log().contains("works on") {
            assert!(began.elapsed() < PATIENCE, "no worker: {}", hand.log());
            sleep(Duration::from_millis(20)).await;
        }
        hand
    }
}

/// A running worker process.
pub struct Hand {
    pub child: Child,
    pub log: PathBuf,
}

impl Hand {
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the process has exited.
    pub async fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the worker goes on: {}", self.log());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the worker, asserts a clean exit and returns its log.
    pub async fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert!(status.success(), "{}", self.log());
        self.log()
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

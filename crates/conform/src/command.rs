//! The command's arguments, and its course: one answer of the server first, then the checks, then the reports.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::Url;
use reqwest::redirect::Policy;
use serde_json::Value;

use crate::check::{Check, Tier};
use crate::finding::Finding;
use crate::report::{Counts, json, junit, table};
use crate::site::{Agent, KeyHeader, Options, Site};
use crate::{a2a, aee, arcp, mcp, moments, openintent, runner};

/// A protocol that servers are checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// Channels and messages of OpenIntent (RFC-0021)
    Openintent,
    /// Agent Runtime Control Protocol 1.1
    Arcp,
    /// Agent Envelope Exchange, over HTTP
    Aee,
    /// Binding moments, as results of tools of MCP
    Moments,
    /// Model Context Protocol over streamable HTTP
    Mcp,
    /// A2A 1.0 over JSON-RPC
    A2a,
}

impl Protocol {
    /// Returns the protocol's name.
    fn name(self) -> &'static str {
        match self {
            Self::Openintent => "openintent",
            Self::Arcp => "arcp",
            Self::Aee => "aee",
            Self::Moments => "moments",
            Self::Mcp => "mcp",
            Self::A2a => "a2a",
        }
    }

    /// Returns the protocol's checks.
    fn checks(self) -> Vec<&'static Check> {
        let all: &[&'static [Check]] = match self {
            Self::Openintent => openintent::CHECKS,
            Self::Arcp => arcp::CHECKS,
            Self::Aee => &[aee::CHECKS],
            Self::Moments => &[moments::CHECKS],
            Self::Mcp => mcp::CHECKS,
            Self::A2a => a2a::CHECKS,
        };
        all.iter().flat_map(|part| part.iter()).collect()
    }
}

/// Check a server from the outside against the clauses of a protocol, ours or anybody's; 1 if it fails a check, or passes none
#[derive(Debug, Args)]
pub struct Arguments {
    /// The server's URL
    url: String,
    /// The protocol
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// Only clauses that are at least as binding
    #[arg(long, value_enum, default_value = "may")]
    tier: Tier,
    /// Only these checks: a clause (`RFC-0021 §2.4`, with all below it) or a check's name; repeatable
    #[arg(long, value_name = "CLAUSE")]
    only: Vec<String>,
    /// The first agent's key
    #[arg(long, env = "ENTENTE_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
    /// The second agent's key, for checks with two agents
    #[arg(long, env = "ENTENTE_SECOND_KEY", hide_env_values = true, value_name = "KEY")]
    second_key: Option<String>,
    /// The first agent's id
    #[arg(long, default_value = "agent.conform-one", value_name = "ID")]
    agent: String,
    /// The second agent's id
    #[arg(long, default_value = "agent.conform-two", value_name = "ID")]
    second_agent: String,
    /// ARCP: an agent of the server that ends its jobs with a result at once [default: `echo`, or the server's first]
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// ARCP: an agent of the server that works until it is cancelled [default: `slow`, if the server has it]
    #[arg(long, value_name = "NAME")]
    slow_worker: Option<String>,
    /// Binding moments: a tool whose result has one; without it, the first that says so
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Binding moments: the tool's arguments
    #[arg(long, value_name = "JSON", value_parser = parse_json)]
    arguments: Option<Value>,
    /// AEE: the path that takes envelopes [default: /api/v1/aee/envelopes]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// AEE: the entity that answers the protocol's own intents [default: service.entente]
    #[arg(long, value_name = "NAME")]
    peer: Option<String>,
    /// A2A: where the card leads to another server, as behind a proxy, look for its interface on the server under test
    #[arg(long)]
    rebase: bool,
    /// Time limit of each answer, in seconds
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// Write the results to this file, as XML for continuous integration
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// List the checks, and ask no server
    #[arg(long)]
    list: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// Why the command does not succeed.
#[derive(Debug)]
pub enum Broken {
    /// The server fails checks, or passes none.
    Failed(String),
    /// There is no server to check.
    Unreachable(String),
    /// The arguments make no sense.
    Usage(String),
    /// A report cannot be written.
    Output(std::io::Error),
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Arguments {
    /// Runs the checks, and prints the results.
    ///
    /// # Errors
    /// A check fails, or the server cannot be checked.
    pub async fn run(self) -> Result<(), Broken> {
        let (protocol, junit_file, as_json) = (self.protocol, self.junit.clone(), self.json);
        let checks = self.selected()?;
        if self.list {
            return print(&listed(&checks));
        }
        let site = self.site()?;
        reach(&site, protocol).await?;
        let results = runner::run(&site, checks).await;
        if let Some(file) = junit_file {
            std::fs::write(file, junit::junit(protocol.name(), &results)).map_err(Broken::Output)?;
        }
        print(&if as_json {
            format!("{}\n", json::json(protocol.name(), &results))
        } else {
            table::table(&results)
        })?;
        match Counts::of(results.iter()) {
            // A skipped check proves nothing, and nothing is not conformance.
            Counts { failed: 0, passed: 0, skipped } => Err(Broken::Failed(format!(
                "the server passes no check of {}: all {skipped} are skipped",
                protocol.name()
            ))),
            Counts { failed: 0, .. } => Ok(()),
            Counts { failed, .. } => Err(Broken::Failed(format!(
                "the server fails {failed} of {} checks of {}",
                results.len(),
                protocol.name()
            ))),
        }
    }

    /// Returns the checks that the arguments select.
    fn selected(&self) -> Result<Vec<&'static Check>, Broken> {
        let is_meant = |check: &Check| {
            let named = |word: &String| {
                let begins = |text: &str| {
                    text.strip_prefix(word.as_str())
                        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
                };
                check.name == word || begins(check.clause) || check.clause.split(' ').skip(1).any(begins)
            };
            self.only.is_empty() || self.only.iter().any(named)
        };
        let mut checks = self.protocol.checks();
        checks.retain(|check| is_meant(check) && check.tier <= self.tier);
        if checks.is_empty() {
            let name = self.protocol.name();
            return Err(Broken::Usage(format!("no check of {name} is meant: `--list` shows them")));
        }
        Ok(checks)
    }

    /// Returns the server under test.
    fn site(self) -> Result<Site, Broken> {
        let url = self.url.replacen("ws://", "http://", 1).replacen("wss://", "https://", 1);
        let is_one = |url: &Url| matches!(url.scheme(), "http" | "https") && url.query().is_none();
        let Some(url) = Url::parse(&url).ok().filter(is_one) else {
            return Err(Broken::Usage(format!("`{}` is no URL of a server", self.url)));
        };
        let limit = Duration::from_secs(self.timeout);
        // Already there if another client of this process was first.
        let _another = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(limit)
            .http1_only();
        // A connection that was kept may be closed by the server just then, which is no fault of it.
        let http = http.pool_max_idle_per_host(0);
        let http = http.build().map_err(|error| Broken::Usage(error.to_string()))?;
        let header = match self.protocol {
            Protocol::Openintent => KeyHeader::ApiKey,
            _ => KeyHeader::Bearer,
        };
        let agents = [
            Agent { key: self.api_key, id: self.agent },
            Agent { key: self.second_key, id: self.second_agent },
        ];
        let Self { worker, slow_worker: slow, tool, arguments, path, peer, rebase, .. } = self;
        Ok(Site::new(
            http,
            url,
            agents,
            header,
            limit,
            Options { worker, slow, tool, arguments, path, peer, rebase },
        ))
    }
}

/// Fails unless the server answers at all.
async fn reach(site: &Site, protocol: Protocol) -> Result<(), Broken> {
    let reached = match protocol {
        Protocol::Arcp => arcp::reach(site).await,
        _ => site.get("/").send().await.map(drop),
    };
    site.take_silence();
    site.take_record();
    match reached {
        Ok(()) => Ok(()),
        Err(Finding::Failed { came, .. } | Finding::Skipped(came)) => {
            let why = format!("no server to check at {}: {}", site.base, site.told(&came));
            Err(Broken::Unreachable(why))
        }
    }
}

/// Returns a list of checks.
fn listed(checks: &[&Check]) -> String {
    let lines = checks.iter().map(|check| {
        format!("{:<6}  {:<20}  {:<32}  {}\n", check.tier.word(), check.clause, check.name, check.says)
    });
    lines.collect()
}

fn print(text: &str) -> Result<(), Broken> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Broken::Output)
}

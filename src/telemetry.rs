//! The log of the process. Metrics are `entente_runtime::metrics`, spans `entente_runtime::spans`, and refused credentials
//! `entente_kernel::refused`.
//!
//! Levels: ERROR means a person should look, WARN that something was borne, INFO the life of the server, DEBUG single
//! requests. An error is logged once, where it is handled. Keys, payloads and secrets are never logged.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// What libraries say that is of no use here: the HTTP library reports each stream that is broken on purpose
/// (contract 11.4) as an error, and tells at each start what it starts on; the pool warns of each connection that ends
/// with the thread that it was served by, when the server stops; and the acceptor takes the shut gate of a server that
/// stops for an error. The library of MCP tells of each request as of a server that starts and stops, and of each host that
/// hangs up as of an error; what goes wrong in a tool is told by the tool.
const QUIET: &str =
    "actix_http::h1=off,actix_server=warn,actix_server::accept=off,sqlx_core::pool=error,rmcp=off";

/// Starts the log, for the whole process. To be called once, by the program's entry.
pub fn init(config: &Config) {
    let filter = format!("{QUIET},{}", config.log);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A file or a pipe gets no colours; a terminal does, unless NO_COLOR says otherwise.
    let log = if std::io::stderr().is_terminal() { log } else { log.with_ansi(false) };
    // A second subscriber (in tests) is no reason to fail.
    let _already = match config.log_format {
        LogFormat::Human => log.with_target(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).try_init(),
    };
    config.unknown.iter().for_each(|told| tracing::warn!("{told}"));
}

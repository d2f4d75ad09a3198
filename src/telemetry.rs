//! Logging of the process. Metrics are in `entente_runtime::metrics`, spans in `entente_runtime::spans`, and
//! refused credentials in `entente_runtime::refused`.
//!
//! Levels: ERROR means that a person should look, WARN a tolerated problem, INFO the life of the server,
//! DEBUG single requests. An error is logged once, where it is handled. Keys, payloads and secrets are never
//! logged.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// Filters for noise from libraries: the HTTP library logs each deliberately broken stream (OI-11.4.1) as
/// an error, and its configuration at each start; the pool warns of each connection that ends with its thread
/// on shutdown; the acceptor reports the closed socket of a stopping server as an error.
///
/// The MCP library logs each request as the start and stop of a server, and each disconnecting host as an
/// error; failures of a tool are logged by the tool.
const QUIET: &str =
    "actix_http::h1=off,actix_server=warn,actix_server::accept=off,sqlx_core::pool=error,rmcp=off";

/// Starts logging for the whole process; the program's entry calls it once.
pub fn init(config: &Config) {
    let filter = format!("{QUIET},{}", config.log);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are only for a terminal, unless `NO_COLOR` disables them.
    let log = if std::io::stderr().is_terminal() { log } else { log.with_ansi(false) };
    // A second subscriber (in tests) is not an error.
    let _already = match config.log_format {
        LogFormat::Human => log.with_target(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).try_init(),
    };
    config.unknown.iter().for_each(|told| tracing::warn!("{told}"));
}

//! Logging of the process. Metrics are in `entente_runtime::metrics`, spans in `entente_runtime::spans`, and
//! refused credentials in `entente_runtime::refused`.
//!
//! Levels: ERROR means that a person should look, WARN a tolerated problem, INFO the life of the server,
//! DEBUG single requests. An error is logged once, where it is handled. Keys, payloads and secrets are never
//! logged.

mod repeats;

use std::io::IsTerminal as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use entente_runtime::log_filter::LogFilter;
use entente_runtime::tasks::Tasks;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, reload};

use self::repeats::Repeats;
use crate::config::{Config, LogFormat};

/// Filters for noise from libraries: the HTTP library logs each deliberately broken stream (OI-11.4.1) as
/// an error, and its configuration at each start; the pool warns of each connection that ends with its thread
/// on shutdown; the acceptor reports the closed socket of a stopping server as an error.
///
/// The MCP library logs each request as the start and stop of a server, and each disconnecting host as an
/// error; failures of a tool are logged by the tool.
const QUIET: &str =
    "actix_http::h1=off,actix_server=warn,actix_server::accept=off,sqlx_core::pool=error,rmcp=off";

/// Interval at which the end of a change of the filter is looked for, and lines that were left out are reported.
const TICK: Duration = Duration::from_secs(1);

/// Faults that repeat themselves in this process.
static REPEATS: OnceLock<Repeats> = OnceLock::new();

/// Builds a filter from its text.
fn built(text: &str) -> Result<EnvFilter, String> {
    // A mistake in one part is an error, instead of a part that is missing.
    text.parse::<Targets>().map_err(|e| e.to_string())?;
    EnvFilter::try_new(format!("{QUIET},{text}")).map_err(|e| e.to_string())
}

/// Starts logging for the whole process; the program's entry calls it once.
pub fn init(config: &Config) {
    let filter = built(&config.log).unwrap_or_else(|_| EnvFilter::new("info"));
    let (filter, handle) = reload::Layer::new(filter);
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Colours are only for a terminal, unless `NO_COLOR` disables them.
    let log = if std::io::stderr().is_terminal() { log } else { log.with_ansi(false) };
    // A second subscriber (in tests) is not an error.
    let registry = tracing_subscriber::registry().with(filter);
    let repeats = Repeats::default();
    let once = repeats.clone();
    let begun = match config.log_format {
        LogFormat::Human => registry.with(log.with_target(false).with_filter(once)).try_init(),
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_current_span(false);
            registry.with(log.with_filter(once)).try_init()
        }
    };
    if begun.is_ok() {
        let apply = move |text: &str| handle.reload(built(text)?).map_err(|e| e.to_string());
        LogFilter::new(&config.log, apply).install();
        let _first = REPEATS.set(repeats);
    }
    config.unknown.iter().for_each(|told| tracing::warn!("{told}"));
}

/// Ends changes of the log filter when their time is over, and reports faults that were not written each time.
pub fn start(tasks: &Tasks) {
    let Some(filter) = LogFilter::of_process() else { return };
    let stopping = tasks.stopping().clone();
    tasks.keep("log", move || {
        let stopping = stopping.clone();
        async move {
            while stopping.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
                filter.expire(Instant::now());
                if let Some(repeats) = REPEATS.get() {
                    repeats.report(Instant::now());
                }
            }
        }
    });
}

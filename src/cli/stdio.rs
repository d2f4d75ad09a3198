//! `entente arcp-stdio`: one ARCP session over stdin and stdout, for a client that starts its server as a
//! child process. With `--url` the process relays the session of a running server. Otherwise it is a full server
//! as with `entente dev`: workers and other clients reach it over HTTP.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use entente_arcp_api::transport;
use entente_domain::arcp::sessions::dialects::Dialect;
use entente_runtime::signals::Signals;

use super::dev_keys::For;
use super::run::{Dev, run_until, start};
use super::{Done, dev_keys};
use crate::telemetry;

/// Serve one ARCP session over stdin and stdout; ends with its input
///
/// With --url it relays the session of a running server, and starts in milliseconds. Without, it is a server of its own,
/// with HTTP as well; its PostgreSQL takes seconds to start, and clients wait five seconds for their welcome.
#[derive(Debug, Args)]
pub struct ArcpStdio {
    /// The URL of a running server to relay; `ENTENTE_API_KEY` is the key of a session.hello without a token
    #[arg(long, value_name = "URL", conflicts_with_all = ["bind", "data_dir", "seed"])]
    url: Option<String>,
    #[command(flatten)]
    server: Dev,
    /// The dialect to write: strict, python, ts, go or legacy [default: as detected from the first frame]
    #[arg(long, value_name = "DIALECT", value_parser = parse_dialect)]
    dialect: Option<Dialect>,
}

fn parse_dialect(text: &str) -> Result<Dialect, String> {
    Dialect::parse(text).ok_or_else(|| "must be strict, python, ts, go or legacy".to_owned())
}

impl ArcpStdio {
    pub(super) async fn run(mut self) -> Done {
        if let Some(url) = &self.url {
            return entente_client::remote::relay::run(url, self.dialect).await;
        }
        // Several clients may each have their own server.
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        self.server.bind = self.server.bind.or(Some(anywhere));
        let (config, given) = self.server.settle()?;
        telemetry::init(&config);
        let mut signals = Signals::listen()?;
        let keys = dev_keys::directory(&config);
        let seeded = !given.is_empty();
        let (server, private) = start(config, given, &mut signals).await?;
        if !seeded {
            announce(&server.ctx, keys.as_deref()).await?;
        }
        // Only envelopes go to stdout.
        say(&format!(
            "Entente listens on {}://{} and speaks ARCP 1.1 on stdin and stdout",
            server.scheme(),
            server.address
        ));
        let session = Box::pin(transport::stdio::run(Arc::clone(&server.api.arcp), self.dialect));
        run_until(server, private, signals, session).await
    }
}

/// Writes a line to standard error; a client may have closed it.
fn say(line: &str) {
    let _written = writeln!(io::stderr(), "{line}");
}

async fn announce(ctx: &entente_bridges::Ctx, keys: Option<&Path>) -> Done {
    let key = dev_keys::keep(ctx, keys, For::Operator).await?;
    say(&format!("A key that may do everything and act as anybody: {key}"));
    Ok(())
}

//! `entente turn`: everything that an agent does between two thoughts, in one request.

use std::io::{self, Write as _};

use clap::Args;
use serde_json::Value;

use crate::Done;
use crate::inbox;
use crate::jobs::given;
use crate::remote::Remote;

/// Take a whole turn: mark entries seen, send, report, finish, keep claims, claim; all or nothing
#[derive(Debug, Args)]
pub(crate) struct TakeTurn {
    #[command(flatten)]
    remote: Remote,
    /// The turn as JSON, as `POST /turn` takes it: the text, `@` and a file, or `-` for standard input
    #[arg(default_value = "{}")]
    turn: String,
    /// A key, so that the turn happens once, however often it is sent
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
}

impl TakeTurn {
    pub(crate) async fn run(self) -> Done {
        let turn: Value = serde_json::from_str(&given(&self.turn)?)?;
        let api = self.remote.api()?;
        let taken = match &self.once {
            Some(key) => api.post_once("/turn", &turn, key).await?,
            None => api.post("/turn", &turn).await?,
        };
        if self.remote.json {
            return self.remote.show(&taken, &[]);
        }
        let count = |list: &Value| list.as_array().map_or(0, Vec::len);
        let done = &taken["done"];
        writeln!(
            io::stdout().lock(),
            "{} sent, {} finished, {} claimed",
            count(&done["messages"]),
            count(&done["finished"]),
            count(&taken["jobs"])
        )?;
        self.remote.show(&taken["jobs"], &["job_id", "agent", "attempt", "claim_expires_at"])?;
        if taken["inbox"].is_null() { Ok(()) } else { inbox::print(&self.remote, &taken["inbox"]) }
    }
}

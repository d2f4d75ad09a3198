//! `entente prune`: deletes rows past their retention, as the server's sweeps do over time, or counts them.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use entente_bridges::retention::{Expired, expired};
use entente_store::Pool;
use entente_store::migrate::{self, MIGRATIONS};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Done;
use super::run::{Database, named_database};
use crate::background::sweeps::prune;
use crate::config::Config;
use crate::startup::offline;
use crate::startup::routes::Routes;
use crate::telemetry;

/// Arguments of `entente prune`.
#[derive(Debug, Args)]
pub struct Prune {
    /// Count what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Prune {
    /// Counts or deletes the rows past their retention.
    ///
    /// # Errors
    /// The configuration or the database cannot be used; the schema is not up to date.
    pub(super) async fn run(self) -> Done {
        let config = Config::from_environment()?;
        telemetry::init(&config);
        let Database { options, direct, private } = named_database(&config).await?;
        let done: Done = async {
            let routes = Routes::find(options, direct).await?;
            let pool = entente_store::pool(routes.session, 2, &CancellationToken::new());
            let done = self.work(&config, &pool).await;
            pool.close().await;
            done
        }
        .await;
        if let Some(private) = private {
            private.stop().await?;
        }
        done
    }

    async fn work(&self, config: &Config, pool: &Pool) -> Done {
        let applied = migrate::applied(pool).await?;
        if MIGRATIONS.iter().any(|migration| !applied.contains(&migration.version)) {
            return Err("the schema is not of this release; run `entente migrate` first".into());
        }
        let ctx = offline(config, pool.clone()).await?;
        let found = expired(&ctx).await?;
        self.show(&found)?;
        if self.dry_run {
            return Ok(());
        }
        let mut failed = None;
        prune(&ctx, |sweep, total| {
            if total > 0 && !self.json && failed.is_none() {
                failed = writeln!(io::stdout().lock(), "{}: {total} rows deleted", sweep.name()).err();
            }
        })
        .await?;
        failed.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn show(&self, found: &[Expired]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            let nouns: Vec<_> = found
                .iter()
                .map(|one| {
                    let seconds = one.kept.map(|kept| kept.as_secs());
                    json!({ "noun": one.noun, "setting": one.setting, "kept_seconds": seconds, "expired": one.count })
                })
                .collect();
            return writeln!(out, "{}", json!({ "dry_run": self.dry_run, "nouns": nouns }));
        }
        writeln!(out, "{:>12}  {:<31}  kept", "expired", "noun")?;
        found.iter().try_for_each(|one| {
            writeln!(out, "{:>12}  {:<31}  {} ({})", one.count, one.noun, kept(one.kept), one.setting)
        })
    }
}

/// Returns a retention in words.
fn kept(kept: Option<Duration>) -> String {
    match kept.map(|kept| kept.as_secs() / 3_600) {
        None => "for ever".to_owned(),
        Some(24) => "a day".to_owned(),
        Some(hours) if hours > 0 && hours % 24 == 0 => format!("{} days", hours / 24),
        Some(hours) => format!("{hours} hours"),
    }
}

//! The two keys of `entente dev`: for the operator and for agents. Files in the data directory of a private PostgreSQL keep them, for
//! this user only, so that a key exported in a terminal or written into a host's settings is still good after a
//! restart. On a database of somebody else's each run has its own.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use entente_domain::identity::keys::Presented;
use entente_kernel::identity::{authentication, seeds};
use entente_kernel::{AppError, Ctx};
use entente_store::private::Private;

use super::Failure;
use super::first_key::kept;
use crate::config::Config;
use crate::startup::patiently;

/// Whom a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The operator: all scopes.
    Operator,
    /// Agents: acts as any of them, and administers nothing.
    Agents,
}

impl For {
    fn file(self) -> &'static str {
        match self {
            Self::Operator => "operator.key",
            Self::Agents => "agents.key",
        }
    }
}

/// Returns the directory with the keys, if they are kept.
pub(super) fn directory(config: &Config) -> Option<PathBuf> {
    let is_private = config.database_url.is_none();
    is_private.then(|| config.data_dir.clone().unwrap_or_else(Private::default_dir))
}

/// Returns the kept key; makes it and its file if there is none, or if it was ended. Without a directory, makes one for this run.
///
/// # Errors
/// The file cannot be used; database errors.
pub(super) async fn keep(ctx: &Ctx, dir: Option<&Path>, of: For) -> Result<String, Failure> {
    let Some(path) = dir.map(|dir| dir.join(of.file())) else {
        let presented = Presented::mint(&*ctx.chance);
        is_in_force(ctx, of, &presented).await?;
        return Ok(presented.reveal());
    };
    let presented = kept(&path, &*ctx.chance)?;
    if is_in_force(ctx, of, &presented).await? {
        return Ok(presented.reveal());
    }
    // Somebody revoked it.
    match fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e.into()),
        _ => {}
    }
    let presented = kept(&path, &*ctx.chance)?;
    is_in_force(ctx, of, &presented).await?;
    Ok(presented.reveal())
}

/// Creates a key unless it exists; returns whether it is in force then.
async fn is_in_force(ctx: &Ctx, of: For, presented: &Presented) -> Result<bool, Failure> {
    // The server answers requests already, and a short outage of the database must not end it.
    let made = patiently(async || match of {
        For::Operator => seeds::development(ctx, presented).await,
        For::Agents => seeds::development_agents(ctx, presented).await,
    });
    if made.await?.is_some() {
        return Ok(true);
    }
    match patiently(async || authentication::authenticate(ctx, &presented.reveal(), None).await).await {
        Ok(_grant) => Ok(true),
        Err(AppError::Refused(_ended)) => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

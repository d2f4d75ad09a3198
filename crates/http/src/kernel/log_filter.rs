//! Routes of the log filter of this server's process.

use std::time::{Duration, Instant};

use actix_web::{delete, get, put};
use entente_domain::identity::keys::Scope;
use entente_domain::refusal::{Code, Refusal};
use entente_runtime::log_filter::LogFilter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::Body;
use crate::caller::Asker;
use crate::error::{Problem, Reply};
use crate::ok;
use crate::routes::Routes;

/// Longest time of a change in seconds: a day.
const LONGEST: u64 = 24 * 3_600;

pub fn routes(config: &mut Routes<'_>) {
    config.service(get).service(set).service(end);
}

/// The log filter of a server's process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LogFilter)]
struct LogFilterBody {
    /// The filter in force.
    #[schema(example = "info,entente_kernel=debug")]
    filter: String,
    /// The configured filter (`ENTENTE_LOG`).
    #[schema(example = "info")]
    configured: String,
    /// Seconds until the configured filter is in force again; null if it is.
    seconds_left: Option<u64>,
}

impl LogFilterBody {
    fn of(filter: &LogFilter) -> Self {
        let (change, configured) = (filter.change(), filter.configured().to_owned());
        let left =
            change.as_ref().map(|change| change.until.saturating_duration_since(Instant::now()).as_secs());
        let filter = change.map_or_else(|| configured.clone(), |change| change.filter);
        Self { filter, configured, seconds_left: left }
    }
}

/// A change of the log filter.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SetLogFilter, example = json!({ "filter": "info,entente_kernel::webhooks=debug", "seconds": 300 }))]
struct SetLogFilterBody {
    /// The filter: a level, or levels by module with commas between.
    filter: String,
    /// Seconds until the configured filter is in force again, from 1 to 86400; 600 by default.
    seconds: Option<u64>,
}

/// Returns the filter of the process, for an admin.
fn filter_for(asker: &Asker) -> Result<&'static LogFilter, Problem> {
    asker.caller.require(Scope::Admin)?;
    let missing = || Refusal::new(Code::Unprocessable, "This process writes no log.");
    Ok(LogFilter::of_process().ok_or_else(missing)?)
}

/// Returns the refusal of a member.
fn invalid(member: &str, what: &str) -> Problem {
    Refusal::field(Code::InvalidRequest, member, "invalid", format!("`{member}` {what}.")).into()
}

/// Get the log filter
///
/// The filter of the process that answers: another server of the same database has its own. Requires the scope `admin`.
#[utoipa::path(operation_id = "get_log_filter", tag = "server",
    responses((status = 200, description = "The filter", body = LogFilterBody)))]
#[get("/log-filter")]
async fn get(asker: Asker) -> Reply {
    ok(&LogFilterBody::of(filter_for(&asker)?))
}

/// Change the log filter for a while
///
/// Concerns the process that answers, until the time is over, it is changed again, or the process ends. Requires the scope
/// `admin`.
#[utoipa::path(operation_id = "set_log_filter", tag = "server", request_body = SetLogFilterBody,
    responses((status = 200, description = "The filter", body = LogFilterBody)))]
#[put("/log-filter")]
async fn set(asker: Asker, body: Body<SetLogFilterBody>) -> Reply {
    let filter = filter_for(&asker)?;
    let SetLogFilterBody { filter: asked, seconds } = body.value;
    let seconds = seconds.unwrap_or(600);
    if !(1..=LONGEST).contains(&seconds) {
        return Err(invalid("seconds", &format!("must be from 1 to {LONGEST}")));
    }
    filter.set(&asked, Instant::now() + Duration::from_secs(seconds)).map_err(|why| {
        invalid("filter", &format!("must be a filter such as `debug` or `info,entente_kernel=debug` ({why})"))
    })?;
    let principal = asker.caller.principal();
    tracing::warn!(principal, filter = asked, seconds, "the log filter is changed for a while");
    ok(&LogFilterBody::of(filter))
}

/// Put the configured log filter into force again
///
/// Requires the scope `admin`.
#[utoipa::path(operation_id = "reset_log_filter", tag = "server",
    responses((status = 200, description = "The filter", body = LogFilterBody)))]
#[delete("/log-filter")]
async fn end(asker: Asker) -> Reply {
    let filter = filter_for(&asker)?;
    filter.end();
    ok(&LogFilterBody::of(filter))
}

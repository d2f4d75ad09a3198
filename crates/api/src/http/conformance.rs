//! The route of what this server claims of AEE (§7.1), clause by clause with the tests that show it. The claim is the section
//! on AEE of CONFORMANCE.md, so that there is one; `tests/it/house_rules.rs` refuses tests that do not exist.

use actix_web::get;
use entente_domain::envelopes::VERSION;
use entente_domain::keys::Scope;
use entente_kernel::answers::EXTENSIONS;
use serde::Serialize;
use utoipa::ToSchema;

use super::caller::Asker;
use super::error::Reply;
use super::ok;
use crate::http::routes::Routes;

const CLAIMS: &str = include_str!("../../../../CONFORMANCE.md");

/// How the section begins.
const HEADING: &str = "## AEE 1";

pub fn routes(config: &mut Routes<'_>) {
    config.service(conformance);
}

/// What is claimed of AEE.
#[derive(Debug, Serialize, ToSchema)]
struct Claim {
    /// The version of AEE.
    #[schema(example = "1")]
    aee_version: &'static str,
    /// The text.
    #[schema(example = "draft-cowles-aee-00")]
    text: &'static str,
    /// The level of conformance: what this server sends, and what it takes at `/aee/envelopes`.
    #[schema(example = "MVE-Required")]
    level: &'static str,
    /// The level of what it takes at `/aee/logs`.
    #[schema(example = "MVE-5")]
    logs: &'static str,
    /// What is beyond the text.
    extensions: Vec<&'static str>,
    /// Clause by clause.
    clauses: Vec<Clause>,
}

/// What is claimed of one clause.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConformanceClause)]
struct Clause {
    /// Which.
    #[schema(example = "6.5: `v` is \"1\"")]
    clause: &'static str,
    /// `done`, `decided` or `later`, and what was.
    #[schema(example = "done")]
    status: &'static str,
    /// The tests that show it, as `file::function`.
    tests: Vec<&'static str>,
}

/// The rows of the section's table.
fn clauses() -> Vec<Clause> {
    let section = CLAIMS.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let read = rows.filter_map(|row| {
        let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
        let [clause, status, _place, test] = cells[..] else { return None };
        let tests = test.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).collect();
        Some(Clause { clause, status, tests })
    });
    // The first is the head.
    read.skip(1).collect()
}

/// What is claimed of AEE
///
/// Clause by clause, with the tests that show it.
#[utoipa::path(tag = "envelopes", responses((status = 200, description = "The claim", body = Claim)))]
#[get("/aee/conformance")]
async fn conformance(asker: Asker) -> Reply {
    asker.caller.require(Scope::MailRead)?;
    ok(&Claim {
        aee_version: VERSION,
        text: "draft-cowles-aee-00",
        level: "MVE-Required",
        logs: "MVE-5",
        extensions: EXTENSIONS.to_vec(),
        clauses: clauses(),
    })
}

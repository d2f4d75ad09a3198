//! Endpoint for this server's AEE conformance claim (§7.1), clause by clause with the tests that prove it. It serves
//! the AEE section of CONFORMANCE.md, so that there is a single source; `tests/it/house_rules.rs` fails if a
//! named test does not exist.

use actix_web::get;
use entente_aee::answers::EXTENSIONS;
use entente_domain::aee::envelopes::VERSION;
use entente_domain::identity::keys::Scope;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use serde::Serialize;
use utoipa::ToSchema;

const CLAIMS: &str = include_str!("../../../CONFORMANCE.md");

/// The section's heading.
const HEADING: &str = "## AEE 1";

pub fn routes(config: &mut Routes<'_>) {
    config.service(conformance);
}

/// The AEE conformance claim.
#[derive(Debug, Serialize, ToSchema)]
struct Claim {
    /// The AEE version.
    #[schema(example = "1")]
    aee_version: &'static str,
    /// The specification text.
    #[schema(example = "draft-cowles-aee-00")]
    text: &'static str,
    /// The conformance level of the envelopes this server sends, and of those it accepts at `/aee/envelopes`.
    #[schema(example = "MVE-Required")]
    level: &'static str,
    /// The conformance level of the lines accepted at `/aee/logs`.
    #[schema(example = "MVE-5")]
    logs: &'static str,
    /// Extensions beyond the specification.
    extensions: Vec<&'static str>,
    /// The claims, clause by clause.
    clauses: Vec<Clause>,
}

/// The claim for one clause.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConformanceClause)]
struct Clause {
    /// The clause.
    #[schema(example = "6.5: `v` is \"1\"")]
    clause: &'static str,
    /// `done`, `decided` or `later`, with the details.
    #[schema(example = "done")]
    status: &'static str,
    /// The tests that prove it, as `file::function`.
    tests: Vec<&'static str>,
}

/// Parses the rows of the section's table.
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
    // The first row is the header.
    read.skip(1).collect()
}

/// Get the AEE conformance claim
///
/// Lists the clauses with the tests that prove them.
#[utoipa::path(tag = "envelopes", responses((status = 200, description = "The conformance claim", body = Claim)))]
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

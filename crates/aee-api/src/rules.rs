//! Routes of the envelope rules, which govern the senders and recipients between which envelopes may pass
//! (AEE §11.5).

use actix_web::{HttpResponse, delete, get, put, web};
use entente_aee::policy::rules;
use entente_aee::policy::rules::Named;
use entente_domain::aee::envelopes::policy::Rule;
use entente_domain::identity::keys::Dialect;
use entente_http::body::Body;
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(set).service(remove);
}

/// A rule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeRule)]
struct RuleBody {
    /// Name of the rule.
    #[schema(example = "to-partners")]
    name: String,
    /// Definition of the rule.
    #[serde(flatten)]
    rule: Rule,
    /// Principal that last set the rule.
    updated_by: String,
    /// When the rule was last set.
    updated_at: WireTime,
}

impl RuleBody {
    fn new(named: Named, dialect: Dialect) -> Self {
        Self {
            name: named.name,
            rule: named.rule,
            updated_by: named.updated_by,
            updated_at: WireTime::new(named.updated_at, dialect),
        }
    }
}

/// The rules.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EnvelopeRuleList)]
struct RuleList {
    /// The rules, sorted by name.
    rules: Vec<RuleBody>,
}

/// List the envelope rules
///
/// Returns the rules for the senders and recipients between which envelopes may pass (AEE §11.5). Needs the
/// scope `admin`.
#[utoipa::path(operation_id = "list_envelope_rules", tag = "envelopes",
    responses((status = 200, description = "The rules", body = RuleList)))]
#[get("/aee/rules")]
async fn list(api: web::Data<ApiState>, asker: Asker) -> Reply {
    let found = rules::list(&api.ctx, &asker.caller).await?;
    ok(&RuleList { rules: found.into_iter().map(|one| RuleBody::new(one, asker.dialect)).collect() })
}

/// Set an envelope rule
///
/// Replaces the rule of that name, if any, and applies to every envelope accepted from then on. Needs the
/// scope `admin`.
#[utoipa::path(operation_id = "set_envelope_rule", tag = "envelopes", request_body = Rule,
    params(("name" = String, Path, description = "Name of the rule")),
    responses((status = 200, description = "The rule", body = RuleBody),
              (status = 422, description = "`unprocessable`: the rule is invalid", body = entente_http::error::ProblemBody)))]
#[put("/aee/rules/{name}")]
async fn set(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, body: Body<Rule>) -> Reply {
    let named = rules::set(&api.ctx, &asker.caller, path.into_inner(), body.value).await?;
    ok(&RuleBody::new(named, asker.dialect))
}

/// Remove an envelope rule
///
/// Needs the scope `admin`.
#[utoipa::path(operation_id = "remove_envelope_rule", tag = "envelopes",
    params(("name" = String, Path, description = "Name of the rule")),
    responses((status = 204, description = "Removed")))]
#[delete("/aee/rules/{name}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    rules::remove(&api.ctx, &asker.caller, &path).await?;
    Ok(HttpResponse::NoContent().finish())
}

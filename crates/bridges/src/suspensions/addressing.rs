//! Addressees of a question: each must be a person other than the asker, under any name that the asker uses.

use entente_domain::identity::principals::PrincipalKind;
use entente_domain::openintent::suspensions::Asked;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::principals;
use entente_kernel::{Caller, Outcome};
use serde_json::Value;
use sqlx::PgConnection;

use super::Addressee;

/// Returns the addressees in an SDK's record: `channel_hint` or the context names a person, and a ladder the second
/// one.
pub(super) fn hinted(asked: &Asked) -> Addressee {
    let member = |name: &str| asked.context.get(name).and_then(Value::as_str).map(str::to_owned);
    Addressee {
        person: member("principal_id").or_else(|| asked.hint.clone()),
        second: asked.ladder.first().cloned(),
        supersedes: member("supersedes").and_then(|id| id.parse().ok()),
        objection_response: member("objection_response"),
    }
}

/// Returns whether a name belongs to a person other than the asker, under any name that the asker uses.
pub(super) async fn is_person(conn: &mut PgConnection, name: Option<&str>, asker: &Caller) -> Outcome<bool> {
    let other = |name: &&str| *name != asker.agent && *name != asker.principal() && !name.contains('\0');
    let Some(name) = name.filter(other) else { return Ok(false) };
    let found = principals::find(conn, name).await?;
    Ok(found.is_some_and(|principal| principal.kind == PrincipalKind::Human))
}

/// Requires that no addressee is the asker's own principal, acting in an agent's name: that person would answer
/// itself.
///
/// # Errors
/// [`Code::Unprocessable`].
pub(super) fn check_other(caller: &Caller, first: Option<&str>, second: Option<&str>) -> Result<(), Refusal> {
    for (member, name) in [("principal_id", first), ("escalate_to", second)] {
        if !caller.is_itself() && name == Some(caller.principal()) {
            let message =
                "Who asks cannot be who decides, and this question is asked with a key of that very person.";
            return Err(Refusal::field(Code::Unprocessable, member, "same_as_agent", message));
        }
    }
    Ok(())
}

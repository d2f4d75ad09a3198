//! Entities for which a key sends and reads envelopes (AEE §11.5): its principal and those that it may act as, but no
//! other person.
//!
//! Only a person's own key sends and reads that person's envelopes: `act_as` covers agents and services, and even a
//! key that may act as everybody is no proxy for a person.

use std::collections::{HashMap, HashSet};

use entente_domain::aee::envelopes::approvals::is_person;
use entente_domain::identity::principals::PrincipalKind;
use sqlx::PgConnection;

use crate::{AppError, Caller, Outcome, unknown};

/// The entities, of a given set, that the caller may send and read for.
pub struct OwnEntities {
    own: HashSet<String>,
}

impl OwnEntities {
    /// Selects them from `entities`, and looks up those that are not the key's own principal.
    ///
    /// # Errors
    /// Returns database errors.
    pub async fn among(
        conn: &mut PgConnection,
        caller: &Caller,
        entities: impl IntoIterator<Item = &str>,
    ) -> Outcome<Self> {
        let covered: HashSet<&str> = entities.into_iter().filter(|entity| covers(caller, entity)).collect();
        let others: Vec<&str> = covered.iter().copied().filter(|one| *one != caller.principal()).collect();
        let kinds = kinds(conn, &others).await?;
        let own = |one: &&str| *one == caller.principal() || !is_person(one, kinds.get(*one).copied());
        Ok(Self { own: covered.into_iter().filter(own).map(str::to_owned).collect() })
    }

    /// Returns whether the caller may send and read for an entity of that set.
    #[must_use]
    pub fn contains(&self, entity: &str) -> bool {
        self.own.contains(entity)
    }
}

/// Returns whether the caller may send and read for an entity.
///
/// # Errors
/// Returns database errors.
pub async fn speaks_for(conn: &mut PgConnection, caller: &Caller, entity: &str) -> Outcome<bool> {
    Ok(OwnEntities::among(conn, caller, [entity]).await?.contains(entity))
}

/// Returns whether the key's `act_as` covers an entity of any kind.
fn covers(caller: &Caller, entity: &str) -> bool {
    caller.speaker("entity", Some(entity), false).is_ok_and(|speaker| speaker == entity)
}

/// Loads the kinds of those names that are principals.
async fn kinds(conn: &mut PgConnection, names: &[&str]) -> Outcome<HashMap<String, PrincipalKind>> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        "-- principals::kinds\n SELECT id, kind FROM principals WHERE id = ANY($1)",
        names as &[&str]
    );
    let kind = |id: String, kind: &str| -> Result<(String, PrincipalKind), AppError> {
        Ok((id, PrincipalKind::parse(kind).ok_or_else(|| unknown("principal kind", kind))?))
    };
    rows.fetch_all(conn).await?.into_iter().map(|row| kind(row.id, &row.kind)).collect()
}

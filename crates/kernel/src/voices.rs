//! Whose envelopes a key sends and reads (AEE §11.5): those of its principal, and of whom it may act as, but never a person's.
//! What a person sends and reads is theirs alone, with a key of their own: `act_as` of a key covers agents and services, and
//! that it covers everybody makes it nobody's proxy.

use std::collections::{HashMap, HashSet};

use entente_domain::envelopes::approvals::is_person;
use entente_domain::principals::Kind;
use sqlx::PgConnection;

use super::{AppError, Caller, Outcome, unknown};

/// Which of some entities are the caller's to speak and to read for.
pub(crate) struct Voices {
    own: HashSet<String>,
}

impl Voices {
    /// Looks those up among them who are not the key's own principal.
    ///
    /// # Errors
    /// The database.
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

    /// Whether this one is, which was among them.
    pub fn speak_for(&self, entity: &str) -> bool {
        self.own.contains(entity)
    }
}

/// Whether an entity is the caller's to speak and to read for.
///
/// # Errors
/// The database.
pub(crate) async fn speaks_for(conn: &mut PgConnection, caller: &Caller, entity: &str) -> Outcome<bool> {
    Ok(Voices::among(conn, caller, [entity]).await?.speak_for(entity))
}

/// Whether the key's `act_as` lets it, whoever that is.
fn covers(caller: &Caller, entity: &str) -> bool {
    caller.speaker("entity", Some(entity), false).is_ok_and(|speaker| speaker == entity)
}

/// What kind of being each of these is, of those who are principals.
async fn kinds(conn: &mut PgConnection, names: &[&str]) -> Outcome<HashMap<String, Kind>> {
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        "-- principals::kinds\n SELECT id, kind FROM principals WHERE id = ANY($1)",
        names as &[&str]
    );
    let kind = |id: String, kind: &str| -> Result<(String, Kind), AppError> {
        Ok((id, Kind::parse(kind).ok_or_else(|| unknown("principal kind", kind))?))
    };
    rows.fetch_all(conn).await?.into_iter().map(|row| kind(row.id, &row.kind)).collect()
}

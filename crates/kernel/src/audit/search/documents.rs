//! Documents of the search. Table `search_documents`.

use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::log::search::{Place, Query, SourceKind, Words};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Caller, Outcome, unknown};

/// A search.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The words.
    pub query: Query,
    /// Kinds of results; empty for all that the caller's key may read.
    pub kinds: Vec<SourceKind>,
    /// Only results of this intent.
    pub intent_id: Option<IntentId>,
    /// Only results after this time.
    pub since: Option<Timestamp>,
    /// Only results before this time.
    pub until: Option<Timestamp>,
    /// Maximum number of results.
    pub limit: u32,
    /// Place before which the page begins.
    pub before: Option<Place>,
}

/// A document.
#[derive(Debug)]
pub(super) struct Document {
    pub source_id: Uuid,
    pub seq: i64,
    pub kind: SourceKind,
    pub intent_id: Option<Uuid>,
    pub at: Timestamp,
    /// Words by which everybody finds the source who may see it.
    pub words: Words,
    /// Further words by which only the job's own principal finds it.
    pub own_words: Words,
}

impl Document {
    /// Returns how many bytes its words have.
    pub fn bytes(&self) -> usize {
        self.words.text.len() + self.own_words.text.len()
    }

    /// Whether words were left out.
    pub fn is_cut(&self) -> bool {
        self.words.is_cut || self.own_words.is_cut
    }
}

/// Stores documents, each of another source; one that a source has is replaced.
///
/// The configuration `simple` stems nothing: texts of agents mix languages, code and names.
pub(super) async fn store(conn: &mut PgConnection, documents: &[&Document]) -> Outcome<()> {
    if documents.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- search_documents::store
         INSERT INTO search_documents (source_id, seq, kind, intent_id, at, words, own_words)
         SELECT d.source_id, d.seq, d.kind, d.intent_id, d.at, to_tsvector('simple', d.words),
                CASE WHEN d.own_words <> '' THEN to_tsvector('simple', d.words) || to_tsvector('simple', d.own_words) END
         FROM UNNEST($1::uuid[], $2::bigint[], $3::text[], $4::uuid[], $5::timestamptz[], $6::text[], $7::text[])
              AS d (source_id, seq, kind, intent_id, at, words, own_words)
         ON CONFLICT (source_id, seq) DO UPDATE SET words = excluded.words, own_words = excluded.own_words",
        &documents.iter().map(|one| one.source_id).collect::<Vec<_>>(),
        &documents.iter().map(|one| one.seq).collect::<Vec<_>>(),
        &documents.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>() as &[&str],
        &documents.iter().map(|one| one.intent_id).collect::<Vec<_>>() as &[Option<Uuid>],
        &documents.iter().map(|one| one.at).collect::<Vec<_>>(),
        &documents.iter().map(|one| one.words.text.as_str()).collect::<Vec<_>>() as &[&str],
        &documents.iter().map(|one| one.own_words.text.as_str()).collect::<Vec<_>>() as &[&str]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A document that has the words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub kind: SourceKind,
    pub place: Place,
}

impl Candidate {
    /// Returns the log that its source is in.
    pub fn log(&self) -> IntentId {
        self.place.source_id.into()
    }
}

/// Finds documents, newest first, before a place.
///
/// It leaves out every intent that the caller may not read, the system log unless the caller has the scope `admin`, and
/// jobs of others unless it has that scope; of those, the words that only their principals know are not searched, not
/// even for the absence of a word.
pub(super) async fn matching(
    conn: &mut PgConnection,
    caller: &Caller,
    ask: &Ask,
    kinds: &[SourceKind],
    before: Option<Place>,
    limit: i64,
    now: Timestamp,
) -> Outcome<Vec<Candidate>> {
    let rows = sqlx::query!(
        r#"-- search_documents::matching
         SELECT d.source_id, d.seq, d.kind, d.at
         FROM search_documents d, websearch_to_tsquery('simple', $1) AS q
         WHERE (d.words @@ q OR d.own_words @@ q) AND d.kind = ANY($2) AND ($3::uuid IS NULL OR d.intent_id = $3)
           AND ($4::timestamptz IS NULL OR d.at > $4) AND ($5::timestamptz IS NULL OR d.at < $5)
           AND ($6::timestamptz IS NULL OR (d.at, d.source_id, d.seq) < ($6, $7::uuid, $8::bigint))
           AND CASE
               WHEN d.kind = 'job' THEN EXISTS (
                   SELECT 1 FROM jobs j JOIN job_clock c ON c.job_id = j.id
                   WHERE j.id = d.source_id AND c.status <> 'preparing'
                     AND (j.principal = $9 AND coalesce(d.own_words, d.words) @@ q OR $10 AND d.words @@ q))
               WHEN d.intent_id IS NULL THEN $10
               ELSE EXISTS (
                   SELECT 1 FROM intents i LEFT JOIN acls a ON a.intent_id = i.id
                   WHERE i.id = d.intent_id
                     AND (i.created_by = $9 OR a.default_policy IS DISTINCT FROM 'closed' OR EXISTS (
                         SELECT 1 FROM acl_entries g WHERE g.intent_id = i.id AND g.principal_id = $9
                           AND (g.expires_at IS NULL OR g.expires_at > $11)))) END
         ORDER BY d.at DESC, d.source_id DESC, d.seq DESC LIMIT $12"#,
        ask.query.text,
        &kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>() as &[&str],
        ask.intent_id.map(IntentId::uuid),
        ask.since,
        ask.until,
        before.map(|place| place.at),
        before.map(|place| place.source_id),
        before.map(|place| place.seq),
        caller.agent,
        caller.has(Scope::Admin),
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    let read = rows.into_iter().map(|row| {
        let kind = SourceKind::parse(&row.kind).ok_or_else(|| unknown("kind", &row.kind))?;
        Ok(Candidate { kind, place: Place { at: row.at, source_id: row.source_id, seq: row.seq } })
    });
    read.collect()
}

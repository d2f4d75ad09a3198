//! The facts that a batch of envelopes is decided by: read and locked in one order. The decisions are in `batch.rs`.

use std::collections::{BTreeSet, HashMap, HashSet};

use entente_domain::aee::envelopes::is_bus;
use entente_domain::aee::envelopes::pairing::Pair;
use entente_domain::aee::envelopes::receipt::Voucher;
use entente_domain::clock::Timestamp;
use entente_kernel::Outcome;
use sqlx::PgConnection;

use crate::envelopes;
use crate::envelopes::{Disposition, PreparedEnvelope, Referred, Stub};
use crate::mailboxes;
use crate::mailboxes::{Item, Known};
use crate::policy::version;
use crate::{buses, envelope_keys, exchanges};

/// State of a batch: the facts read in advance, and the results so far.
pub(super) struct IngestContext {
    /// Stored envelopes with the ids that the batch names.
    pub stubs: HashMap<String, Stub>,
    /// Ids of envelopes without a time that were accepted before and are no longer stored.
    pub spent: HashSet<String>,
    /// The envelopes that are referred to with a hash.
    pub referred: HashMap<String, Referred>,
    pub pairs: HashMap<(String, String), Pair>,
    /// Subscribers of each bus.
    pub listeners: HashMap<String, Vec<String>>,
    /// Version of the rules and schemas in force.
    pub version: i64,
    /// The keys still in force, of those that verified signatures.
    pub keys: HashSet<(String, String)>,
    /// The last number of each existing mailbox.
    pub ends: HashMap<String, i64>,
    pub items: Vec<Item>,
    pub fresh: Vec<Pair>,
    pub closed: Vec<(String, String, String)>,
    pub accepted: Vec<usize>,
    /// The ids of the accepted envelopes.
    pub taken: HashSet<String>,
}

impl IngestContext {
    /// Reads and locks the rows that the batch needs: exchanges, mailboxes, and at last the policy.
    pub async fn prepare(
        conn: &mut PgConnection,
        known: &mut Known,
        prepared_envelopes: &[&PreparedEnvelope],
        beside: &[&str],
        now: Timestamp,
    ) -> Outcome<Self> {
        let mut ids: BTreeSet<&str> = BTreeSet::new();
        let (mut answered, mut buses_named, mut hashed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for prepared in prepared_envelopes {
            let envelope = &prepared.envelope;
            ids.insert(&envelope.id);
            if let Some(task) = envelope.reply_to.as_deref() {
                ids.insert(task);
                answered.insert((task, prepared.speaker()));
            }
            hashed.extend(
                envelope.references.iter().filter(|one| one.hash.is_some()).map(|one| one.id.as_str()),
            );
            if is_bus(&envelope.recipient) {
                buses_named.insert(envelope.recipient.as_str());
            }
        }
        let stubs = envelopes::stubs(conn, &ids.into_iter().collect::<Vec<_>>()).await?;
        // Read after the stored ones, so that an envelope purged in between is found here.
        let untimed = prepared_envelopes.iter().filter(|prepared| prepared.envelope.sent_at.is_none());
        let untimed: Vec<&str> = untimed.map(|prepared| prepared.envelope.id.as_str()).collect();
        let spent = envelopes::remembered(conn, &untimed).await?;
        let referred = envelopes::referred(conn, &hashed.into_iter().collect::<Vec<_>>()).await?;
        let pairs = exchanges::lock(conn, &answered.into_iter().collect::<Vec<_>>()).await?;
        let listeners = buses::listeners(conn, &buses_named.into_iter().collect::<Vec<_>>()).await?;
        let direct = prepared_envelopes.iter().filter(|prepared| {
            prepared.disposition != Disposition::Keep && !prepared.envelope.is_broadcast()
        });
        let direct = direct.map(|prepared| prepared.envelope.recipient.as_str());
        let entities: BTreeSet<&str> =
            direct.chain(listeners.values().flatten().map(String::as_str)).collect();
        let entities: Vec<&str> =
            entities.into_iter().chain(beside.iter().copied()).collect::<BTreeSet<_>>().into_iter().collect();
        let ends = mailboxes::lock(conn, known, &entities, now).await?;
        // Last, when no more locks are waited for: revocations and changes up to now count, and later ones wait for
        // this commit.
        version::hold(conn).await?;
        let version = version::current(conn).await?;
        let keys = prepared_envelopes.iter().filter(|prepared| prepared.verified.by == Voucher::Sig);
        let keys = keys
            .filter_map(|prepared| Some((prepared.envelope.sender.clone(), prepared.verified.kid.clone()?)));
        let keys: BTreeSet<(String, String)> = keys.collect();
        let keys = envelope_keys::still_in_force(conn, &keys.into_iter().collect::<Vec<_>>(), now).await?;
        Ok(Self {
            stubs,
            spent,
            referred,
            version,
            pairs,
            listeners,
            keys,
            ends,
            items: Vec::new(),
            fresh: Vec::new(),
            closed: Vec::new(),
            accepted: Vec::new(),
            taken: HashSet::new(),
        })
    }
}

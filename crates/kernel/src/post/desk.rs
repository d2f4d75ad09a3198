//! What a batch of envelopes knows before it judges: read and locked in one order. Judging is `batch.rs`.

use std::collections::{BTreeSet, HashMap, HashSet};

use entente_domain::clock::Timestamp;
use entente_domain::envelopes::is_bus;
use entente_domain::envelopes::pairing::Pair;
use entente_domain::envelopes::receipt::Voucher;
use sqlx::PgConnection;

use super::{Known, Parcel, Way};
use crate::envelopes::{self, Referred, Stub};
use crate::mailboxes::{self, Item};
use crate::{Outcome, buses, envelope_keys, pairs, rulebook};

/// What a batch knows before it judges.
pub(super) struct Desk {
    /// What is kept under the ids that the batch names.
    pub stubs: HashMap<String, Stub>,
    /// Ids of those whose age nobody can judge that were taken in before and are no longer kept.
    pub spent: HashSet<String>,
    /// The envelopes that are referred to with a hash.
    pub referred: HashMap<String, Referred>,
    pub pairs: HashMap<(String, String), Pair>,
    /// Who listens to each channel.
    pub listeners: HashMap<String, Vec<String>>,
    /// The version of the rules and schemas that counts.
    pub version: i64,
    /// The keys that still count, of those by which signatures were verified.
    pub keys: HashSet<(String, String)>,
    /// The last number of each mailbox that is there.
    pub ends: HashMap<String, i64>,
    pub items: Vec<Item>,
    pub fresh: Vec<Pair>,
    pub closed: Vec<(String, String, String)>,
    pub accepted: Vec<usize>,
    /// The ids of those.
    pub taken: HashSet<String>,
}

impl Desk {
    /// Reads and locks what the batch needs: pairs, mailboxes, and last of all what it is judged by.
    pub async fn prepare(
        conn: &mut PgConnection,
        known: &mut Known,
        (parcels, beside): (&[&Parcel], &[&str]),
        now: Timestamp,
    ) -> Outcome<Self> {
        let mut ids: BTreeSet<&str> = BTreeSet::new();
        let (mut answered, mut buses_named, mut hashed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for parcel in parcels {
            let envelope = &parcel.envelope;
            ids.insert(&envelope.id);
            if let Some(task) = envelope.reply_to.as_deref() {
                ids.insert(task);
                answered.insert((task, parcel.speaker()));
            }
            hashed.extend(
                envelope.references.iter().filter(|one| one.hash.is_some()).map(|one| one.id.as_str()),
            );
            if is_bus(&envelope.recipient) {
                buses_named.insert(envelope.recipient.as_str());
            }
        }
        let stubs = envelopes::stubs(conn, &ids.into_iter().collect::<Vec<_>>()).await?;
        // After those that are kept: what is forgotten in between is found here.
        let untimed = parcels.iter().filter(|parcel| parcel.envelope.sent_at.is_none());
        let untimed: Vec<&str> = untimed.map(|parcel| parcel.envelope.id.as_str()).collect();
        let spent = envelopes::remembered(conn, &untimed).await?;
        let referred = envelopes::referred(conn, &hashed.into_iter().collect::<Vec<_>>()).await?;
        let pairs = pairs::lock(conn, &answered.into_iter().collect::<Vec<_>>()).await?;
        let listeners = buses::listeners(conn, &buses_named.into_iter().collect::<Vec<_>>()).await?;
        let direct =
            parcels.iter().filter(|parcel| parcel.way != Way::Keep && !parcel.envelope.is_broadcast());
        let direct = direct.map(|parcel| parcel.envelope.recipient.as_str());
        let entities: BTreeSet<&str> =
            direct.chain(listeners.values().flatten().map(String::as_str)).collect();
        let entities: Vec<&str> =
            entities.into_iter().chain(beside.iter().copied()).collect::<BTreeSet<_>>().into_iter().collect();
        let ends = mailboxes::lock(conn, known, &entities, now).await?;
        // Last of all, when nothing is waited for any more: what is taken back or changed until then counts, and from here on
        // it waits for this commit.
        rulebook::hold(conn).await?;
        let version = rulebook::version(conn).await?;
        let keys = parcels.iter().filter(|parcel| parcel.verified.by == Voucher::Sig);
        let keys =
            keys.filter_map(|parcel| Some((parcel.envelope.sender.clone(), parcel.verified.kid.clone()?)));
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

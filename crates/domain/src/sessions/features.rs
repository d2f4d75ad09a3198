//! Features (ARCP §6.2): what a session may use is what both sides have said that they can. What belongs to none is
//! always there.

use crate::jobs::events::Kind;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $wire:literal;)+) => {
        /// Something that not every client or server can.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Feature { $($(#[$doc])* $name,)+ }

        impl Feature {
            /// Every feature, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word on the wire.
            #[must_use]
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }
        }
    };
}

features! {
    /// Pings when nothing else is said (§6.4).
    Heartbeat = "heartbeat";
    /// The client says how far it is (§6.5).
    Ack = "ack";
    /// Lists (§6.6).
    ListJobs = "list_jobs";
    /// Following jobs of other sessions (§7.6).
    Subscribe = "subscribe";
    /// Leases that end (§9.5); enforced in any case.
    LeaseExpiresAt = "lease_expires_at";
    /// Budgets (§9.6); enforced in any case.
    CostBudget = "cost.budget";
    /// Models (§9.7); enforced in any case.
    ModelUse = "model.use";
    /// Keys for other services (§9.8).
    ProvisionedCredentials = "provisioned_credentials";
    /// How far a job is (§8.2.1).
    Progress = "progress";
    /// Results in parts (§8.4).
    ResultChunk = "result_chunk";
    /// Versions of agents (§7.5).
    AgentVersions = "agent_versions";
}

impl Feature {
    /// Reads a word; `None` when it is no feature known here.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|feature| feature.wire() == word)
    }

    fn bit(self) -> u16 {
        1 << (self as u16)
    }
}

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u16);

impl Features {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Feature::ALL.iter().copied().collect()
    }

    /// Reads a list of words; those that are unknown are left out.
    #[must_use]
    pub fn parse<T: AsRef<str>>(words: &[T]) -> Self {
        words.iter().filter_map(|word| Feature::parse(word.as_ref())).collect()
    }

    /// What is in both sets.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The same set without a feature.
    #[must_use]
    pub fn without(self, feature: Feature) -> Self {
        Self(self.0 & !feature.bit())
    }

    /// Whether a feature is in it.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// The words on the wire.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        Feature::ALL.iter().filter(|feature| self.has(**feature)).map(|feature| feature.wire()).collect()
    }

    /// Whether a session with these features may be sent events of a kind (contract 9, decision 4).
    #[must_use]
    pub fn admit(self, kind: &str) -> bool {
        let needed = Kind::parse(kind).and_then(Kind::feature).and_then(Feature::parse);
        needed.is_none_or(|feature| self.has(feature))
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<T: IntoIterator<Item = Feature>>(features: T) -> Self {
        Self(features.into_iter().fold(0, |bits, feature| bits | feature.bit()))
    }
}

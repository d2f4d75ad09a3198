//! Features (ARCP §6.2): a session may use the features that both sides announced. Functions that belong to no
//! feature are always available.

use crate::arcp::jobs::events::Kind;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $wire:literal;)+) => {
        /// An optional feature of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Feature { $($(#[$doc])* $name,)+ }

        impl Feature {
            /// All features, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the wire name.
            #[must_use]
            pub fn wire(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }
        }
    };
}

features! {
    /// Pings during silence (§6.4).
    Heartbeat = "heartbeat";
    /// Acknowledgements by the client (§6.5).
    Ack = "ack";
    /// Job lists (§6.6).
    ListJobs = "list_jobs";
    /// Subscriptions to jobs of other sessions (§7.6).
    Subscribe = "subscribe";
    /// Leases that expire (§9.5); enforced in any case.
    LeaseExpiresAt = "lease_expires_at";
    /// Budgets (§9.6); enforced in any case.
    CostBudget = "cost.budget";
    /// Model restrictions (§9.7); enforced in any case.
    ModelUse = "model.use";
    /// Credentials for upstream services (§9.8).
    ProvisionedCredentials = "provisioned_credentials";
    /// Progress of a job (§8.2.1).
    Progress = "progress";
    /// Results in chunks (§8.4).
    ResultChunk = "result_chunk";
    /// Versions of agents (§7.5).
    AgentVersions = "agent_versions";
}

impl Feature {
    /// Parses a wire name; `None` if it is unknown here.
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
    /// Returns the set of all features.
    #[must_use]
    pub fn all() -> Self {
        Feature::ALL.iter().copied().collect()
    }

    /// Parses a list of wire names; unknown ones are ignored.
    #[must_use]
    pub fn parse<T: AsRef<str>>(words: &[T]) -> Self {
        words.iter().filter_map(|word| Feature::parse(word.as_ref())).collect()
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the set without a feature.
    #[must_use]
    pub fn without(self, feature: Feature) -> Self {
        Self(self.0 & !feature.bit())
    }

    /// Returns whether the set contains a feature.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// Returns the wire names.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        Feature::ALL.iter().filter(|feature| self.has(**feature)).map(|feature| feature.wire()).collect()
    }

    /// Returns whether a session with these features may receive events of a kind (ARCP-W-9.4).
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

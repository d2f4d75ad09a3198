//! Tokens of claims (ARCP-W-11.2.3): they fence off earlier holders of a job. Only their digests are stored.

use entente_domain::canonical::{Digest, sha256};

use crate::Ctx;

/// Digest of a claim token, which is stored in its place.
#[must_use]
pub(in crate::jobs) fn token_digest(token: &str) -> Digest {
    sha256(token)
}

/// Tokens of claims about to be made.
#[derive(Clone)]
pub(in crate::jobs) struct Tokens(Vec<String>);

impl Tokens {
    pub fn mint(ctx: &Ctx, count: i64) -> Self {
        Self((0..count).map(|_| format!("ct_{:032x}{:032x}", ctx.chance.bits(), ctx.chance.bits())).collect())
    }

    /// Uses these tokens.
    pub fn of(tokens: Vec<String>) -> Self {
        Self(tokens)
    }

    /// Token at a position, from 1.
    pub fn at(&self, place: i64) -> Option<String> {
        self.0.get(usize::try_from(place - 1).unwrap_or_default()).cloned()
    }

    pub fn count(&self) -> i64 {
        i64::try_from(self.0.len()).unwrap_or(i64::MAX)
    }

    pub fn digests(&self) -> Vec<Digest> {
        self.0.iter().map(|token| token_digest(token)).collect()
    }
}

//! Keys of claims: a worker that lost the answer to a claim asks again with the same key, and gets the same jobs and tokens
//! again while it holds them. Table `job_claims`.
//!
//! Tokens are stored as digests only, so they are derived: from a random salt, which is stored, and the worker's key, which
//! is not. A repeated answer is settled with the first one by the row of the claim: either the first was not heard and its
//! jobs go back, and the repetition claims anew; or the repetition is answered, and the jobs stay.

use std::collections::BTreeMap;

use entente_domain::canonical::{Digest, hex, sha256};
use entente_domain::clock::Timestamp;
use entente_domain::ids::WorkerId;
use entente_domain::limits::IDEMPOTENCY_KEY_BYTES;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::{Outcome, Pool};
use sqlx::PgConnection;
use uuid::Uuid;

use super::queue::Taken;
use super::tokens::{Tokens, token_digest};
use crate::Ctx;

/// Times the duration of a claim for which its key is kept. After one the jobs of an unheard answer are lost anyway.
const KEPT_CLAIMS: u32 = 10;

/// A claim's key.
#[derive(Debug, Clone)]
pub struct ClaimKey(String);

impl ClaimKey {
    /// Checks a key.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`].
    pub fn check(said: String) -> Result<Self, Refusal> {
        let length = said.chars().count();
        if (1..=IDEMPOTENCY_KEY_BYTES).contains(&length) && !said.chars().any(char::is_control) {
            return Ok(Self(said));
        }
        let message = format!(
            "`idempotency_key` must have 1 to {IDEMPOTENCY_KEY_BYTES} characters, none of them a control character. Use a new \
             key for each claim, and the same one to repeat it."
        );
        Err(Refusal::field(Code::InvalidRequest, "idempotency_key", "length", message))
    }

    /// Key of the claim in a turn of this principal with an idempotency key.
    #[must_use]
    pub fn of_turn(principal: &str, key: &str) -> Self {
        Self(hex(&sha256(format!("turn\0{principal}\0{key}"))))
    }

    fn digest(&self) -> Digest {
        sha256(&self.0)
    }

    /// Token at a position, from 1.
    fn token(&self, salt: &[u8], place: i64) -> String {
        let mut secret = salt.to_vec();
        secret.extend_from_slice(&place.to_be_bytes());
        secret.extend_from_slice(self.0.as_bytes());
        format!("ct_{}", hex(&sha256(secret)))
    }
}

/// Source of the tokens of one claim, which may take jobs in several transactions.
pub(in crate::jobs) struct TokenSource<'a> {
    worker: WorkerId,
    /// The claim's key, and the salt with which it gives tokens; without a key they are random.
    secret: Option<(&'a ClaimKey, [u8; 32])>,
    /// Number of tokens made so far.
    made: i64,
}

impl<'a> TokenSource<'a> {
    pub fn new(ctx: &Ctx, worker: WorkerId, key: Option<&'a ClaimKey>) -> Self {
        let salt = || sha256([ctx.chance.bits().to_be_bytes(), ctx.chance.bits().to_be_bytes()].concat());
        Self { worker, secret: key.map(|key| (key, salt())), made: 0 }
    }

    /// Worker that claims.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Makes tokens that no other part of the claim has.
    pub fn tokens(&mut self, ctx: &Ctx, count: i64) -> Tokens {
        let Some((key, salt)) = &self.secret else { return Tokens::mint(ctx, count) };
        let first = self.made + 1;
        self.made += count;
        Tokens::of((first..=self.made).map(|place| key.token(salt, place)).collect())
    }

    /// Writes which jobs the claim took, if it has a key; returns `false` if another request with the same key took some
    /// before.
    pub async fn note(&self, conn: &mut PgConnection, taken: &[Taken], now: Timestamp) -> Outcome<bool> {
        let Some((key, salt)) = self.secret.filter(|_| !taken.is_empty()) else { return Ok(true) };
        let jobs: Vec<Uuid> = taken.iter().map(|one| one.job_id.uuid()).collect();
        let digest = key.digest();
        let done = sqlx::query!(
            "-- job_claims::note
             INSERT INTO job_claims AS k (worker_id, key, salt, tokens, jobs, repeated, made_at)
             VALUES ($1, $2, $3, $4, $5, false, $6)
             ON CONFLICT (worker_id, key) DO UPDATE SET tokens = excluded.tokens, jobs = k.jobs || excluded.jobs
             WHERE k.salt = excluded.salt",
            self.worker.uuid(),
            &digest[..],
            &salt[..],
            self.made,
            &jobs,
            now
        )
        .execute(conn)
        .await?;
        Ok(done.rows_affected() == 1)
    }
}

/// Jobs of an earlier claim, with the token of each as its digest tells.
pub(in crate::jobs) struct Earlier {
    pub jobs: Vec<Uuid>,
    pub tokens: BTreeMap<Digest, String>,
}

/// Finds the claim that a worker made with this key, and keeps its jobs with the worker.
pub(in crate::jobs) async fn repeat(
    pool: &Pool,
    worker: WorkerId,
    key: &ClaimKey,
) -> Outcome<Option<Earlier>> {
    let digest = key.digest();
    let row = sqlx::query!(
        "-- job_claims::repeat
         UPDATE job_claims SET repeated = true WHERE worker_id = $1 AND key = $2 RETURNING salt, tokens, jobs",
        worker.uuid(),
        &digest[..]
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| {
        let tokens = (1..=row.tokens).map(|place| key.token(&row.salt, place));
        Earlier { jobs: row.jobs, tokens: tokens.map(|token| (token_digest(&token), token)).collect() }
    }))
}

/// Forgets a claim whose answer was not heard; returns `false` if it was repeated meanwhile: then its jobs stay.
pub(in crate::jobs) async fn forget(pool: &Pool, worker: WorkerId, key: &ClaimKey) -> Outcome<bool> {
    let digest = key.digest();
    let done = sqlx::query!(
        "-- job_claims::forget
         DELETE FROM job_claims WHERE worker_id = $1 AND key = $2 AND NOT repeated",
        worker.uuid(),
        &digest[..]
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Deletes up to `limit` keys of old claims.
///
/// # Errors
/// The database query fails.
pub async fn tidy_claims(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- job_claims::tidy
         DELETE FROM job_claims WHERE (worker_id, key) IN (
             SELECT worker_id, key FROM job_claims WHERE made_at < $1 ORDER BY made_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        ctx.now() - ctx.state.jobs.claim * KEPT_CLAIMS,
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}

//! Rounds: what is due is done, one thing after another. What a sweep does is in the file of its noun.

use super::{AppError, Outcome};

/// Does each of these, and answers with how much that was. One that cannot be done keeps none of the others from being
/// done: what is broken is due again in every round, and often comes first. The first such failure is the answer, when all
/// are through; only a database that is away ends a round.
///
/// # Errors
/// What one of them failed with.
pub(crate) async fn round(
    deeds: impl IntoIterator<Item = impl Future<Output = Outcome<u64>>>,
) -> Outcome<u64> {
    let (mut done, mut failed) = (0, None);
    for deed in deeds {
        // Boxed: who goes round is then no larger than the largest of what is done on it.
        match Box::pin(deed).await {
            Ok(count) => done += count,
            Err(away @ AppError::Unavailable(_)) => return Err(away),
            Err(failure) => {
                failed.get_or_insert(failure);
            }
        }
    }
    failed.map_or(Ok(done), Err)
}

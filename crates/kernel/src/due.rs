//! Batch runs of due operations; the sweeps themselves are in the modules of their tables.

use super::{AppError, Outcome};

/// Runs a batch of due operations and returns the sum of their counts; one failure does not stop the rest.
///
/// A broken item is due again in every run and often comes first. The first failure is returned at the end; only an
/// unavailable database ends the run.
///
/// # Errors
/// Returns the first failure.
pub async fn run_each(
    operations: impl IntoIterator<Item = impl Future<Output = Outcome<u64>>>,
) -> Outcome<u64> {
    let (mut done, mut failed) = (0, None);
    for operation in operations {
        // Boxed, so that the future of the run is no larger than the largest operation.
        match Box::pin(operation).await {
            Ok(count) => done += count,
            Err(away @ AppError::Unavailable(_)) => return Err(away),
            Err(failure) => {
                failed.get_or_insert(failure);
            }
        }
    }
    failed.map_or(Ok(done), Err)
}

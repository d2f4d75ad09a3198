//! The index of the search by words.

use entente_kernel::audit::search::{ENTRIES, step};

use crate::World;

/// Indexes everything that is committed.
pub async fn index(world: &World) {
    let mut idle = 0;
    // Another server may hold the lock for a moment.
    while idle < 3 {
        idle = if step(world.ctx(), ENTRIES).await.unwrap().has_more { 0 } else { idle + 1 };
    }
}

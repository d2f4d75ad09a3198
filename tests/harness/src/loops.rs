//! The follower that finds loops among agents.

use entente::background::looping;

use crate::World;

/// Reads everything that was sent on a server without background tasks.
pub async fn follow(world: &World) {
    looping::catch_up(world.ctx()).await.unwrap();
}

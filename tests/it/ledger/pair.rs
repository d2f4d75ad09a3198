//! Two servers on one database, which are killed with SIGKILL in turn while agents work on both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::pause;
use entente_harness::process::{Launch, Place, Process, key_of};
use entente_harness::{Client, Cluster, Setup, World};

/// The servers, and a world of the test's own on their database.
pub(super) struct Pair {
    pub(super) world: World,
    launches: [Launch; 2],
    servers: [Process; 2],
    _places: [Place; 2],
}

impl Pair {
    pub(super) async fn start(name: &str) -> Self {
        let world = World::with(Setup::live()).await;
        let url = Cluster::get().url(&world.database);
        let places = [Place::new(name), Place::new(name)];
        let launches = places.each_ref().map(|place| Launch::shared(place, &url));
        let servers = [launches[0].start().await.0, launches[1].start().await.0];
        Self { world, launches, servers, _places: places }
    }

    /// Returns an agent's clients of both servers.
    pub(super) async fn agent(&self, name: &str) -> [Client; 2] {
        self.world.agent(name).await;
        self.servers.each_ref().map(|server| server.client(&key_of(name)))
    }

    /// Kills the servers in turn, and starts each again; `over` says when it is done.
    pub(super) async fn kill_in_turn(mut self, kills: u32, over: &AtomicBool) -> Self {
        let mut chance = u64::from(std::process::id()) ^ 0x1357_9BDF_2468_ACE0;
        println!("the seed of this run's pauses is {chance}");
        for kill in 0..kills {
            tokio::time::sleep(pause(&mut chance)).await;
            let turn = usize::try_from(kill % 2).unwrap();
            self.servers[turn].kill();
            self.servers[turn] = self.launches[turn].start().await.0;
        }
        over.store(true, Ordering::Release);
        self
    }

    pub(super) async fn end(self) {
        drop(self.servers);
        self.world.end().await;
    }
}

/// Pause between two looks at the database.
pub(super) const LOOK: Duration = Duration::from_millis(5);

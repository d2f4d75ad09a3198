//! Settings of binding moments.

use std::time::Duration;

use entente_moments::MomentSettings;

use super::Reader;

impl Reader<'_> {
    pub(super) fn moments(&mut self) -> MomentSettings {
        let days =
            self.parsed("ENTENTE_MOMENT_UNREAD_DAYS", 30_u64, "a number of days from 1 to 3650", |n| {
                (1..=3_650).contains(n)
            });
        MomentSettings {
            retain: self.seconds("ENTENTE_MOMENT_RETAIN_SECONDS", 86_400, 31_536_000),
            unread: Duration::from_secs(days * 24 * 3_600),
            person: self.text("ENTENTE_SUSPENSION_PERSON"),
        }
    }
}

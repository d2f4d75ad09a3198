//! Settings of jobs (ARCP).

use std::time::Duration;

use entente_arcp::jobs::{JobSettings, Policy};

use super::Reader;

impl Reader<'_> {
    pub(super) fn jobs(&mut self) -> JobSettings {
        let policy = match self.text("ENTENTE_ARCP_OPEN_POLICY").as_deref() {
            None | Some("none") => Policy::Own,
            Some("list") => Policy::List,
            Some("subscribe") => Policy::Subscribe,
            Some(other) => {
                self.faults
                    .push(format!("ENTENTE_ARCP_OPEN_POLICY={other}: must be `none`, `list` or `subscribe`"));
                Policy::Own
            }
        };
        JobSettings {
            claim: self.seconds("ENTENTE_CLAIM_SECONDS", 60, 86_400).max(Duration::from_secs(2)),
            cancel_grace: self.seconds("ENTENTE_CANCEL_GRACE_SECONDS", 30, 3_600),
            policy,
            retention: self.retention("ENTENTE_JOB_RETENTION_DAYS"),
        }
    }
}

//! Finds the deadlocks of graphs that a test gives it, so that another program's answers can be compared
//! (`tests/clients/test_waits.py`).
//!
//! Each line of the input is a graph: a JSON list of waits `[from, to, kind, blocks]`. Each line of the output has its
//! deadlocks: `[[agents, positions of the waits], …]`.

use std::io::{BufRead as _, Write as _};

use entente_domain::clock::Timestamp;
use entente_domain::openintent::waits::{Wait, WaitKind, deadlocks};

/// A wait as the test writes it.
type Given = (String, String, String, bool);

fn wait((from, to, kind, blocks): Given) -> Result<Wait, String> {
    let known = WaitKind::ALL.into_iter().find(|known| known.as_str() == kind);
    Ok(Wait {
        from,
        to: Some(to),
        kind: known.ok_or_else(|| format!("`{kind}` is no kind of wait"))?,
        reference: String::new(),
        intent_id: None,
        since: Timestamp::default(),
        blocks,
        public: true,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let given: Vec<Given> = serde_json::from_str(&line?)?;
        let waits = given.into_iter().map(wait).collect::<Result<Vec<Wait>, String>>()?;
        let found: Vec<_> = deadlocks(&waits).into_iter().map(|one| (one.agents, one.waits)).collect();
        writeln!(out, "{}", serde_json::to_string(&found)?)?;
    }
    Ok(())
}

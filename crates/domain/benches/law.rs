//! Benchmark of the domain rules (`make bench`): what it costs one core to judge an envelope of 1 KB, beside the one thing in it that
//! cannot be made cheaper, the check of an Ed25519 signature over as many bytes. Both take turns in one run, so that their
//! ratio is not the machine's. Prints a table and writes it to `bench-results/law.md`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on says where")]

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use entente_domain::aee::envelopes::signing::{Scope, Sig, SigningKey, VerifyingKey, input, sign};
use entente_domain::aee::envelopes::{Envelope, hash, members, read};
use entente_domain::identity::signatures::Signer;
use serde_json::{Value, json};

/// Bytes of the envelope, and envelopes of a batch; batches that each figure is the median of.
const BYTES: usize = 1024;
const BATCH: u32 = 200;
const ROUNDS: usize = 51;

/// Microseconds that an envelope's validation and verification may take.
const AIM: f64 = 120.0;

/// What is measured, and in each round its microseconds.
struct Figure<'a> {
    name: &'static str,
    work: Box<dyn FnMut() + 'a>,
    took: Vec<f64>,
}

impl<'a> Figure<'a> {
    fn new(name: &'static str, work: impl FnMut() + 'a) -> Self {
        Self { name, work: Box::new(work), took: Vec::new() }
    }

    fn round(&mut self) {
        let start = Instant::now();
        (0..BATCH).for_each(|_| (self.work)());
        self.took.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }

    fn median(&mut self) -> f64 {
        self.took.sort_by(f64::total_cmp);
        self.took[self.took.len() / 2]
    }
}

/// A signed envelope, as bytes, that has [`BYTES`] of them.
fn letter(key: &SigningKey) -> Vec<u8> {
    let mut pad = 0;
    loop {
        let whole = json!({
            "v": "1", "id": "01JFB2R1JZKQ9V3K8W8Y9W1F2A", "ts": "2026-11-21T10:00:00.123456Z", "type": "task",
            "from": "agent.manager", "to": "agent.backup_auditor", "intent": "ops.backup.status.check",
            "corr": "01JFB2QX0K8X5K6ZJ9G2C0C1MW", "reply_to": null, "priority": "high",
            "trace": { "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331" },
            "requires": { "timeout_ms": 30000, "evidence": true, "human_approval": false },
            "payload": {
                "cluster": "north", "share": 0.96, "nodes": [{ "name": "n1", "free": 12 }, { "name": "n2", "free": 7 }],
                "note": "x".repeat(pad),
            },
        });
        let Value::Object(mut members) = whole else { unreachable!("it is an object") };
        sign(&mut members, "key-2", key).unwrap();
        let bytes = serde_json::to_vec(&members).unwrap();
        if bytes.len() >= BYTES {
            return bytes;
        }
        pad += BYTES - bytes.len();
    }
}

fn judged(bytes: &[u8], key: &VerifyingKey) -> Envelope {
    let envelope = read(bytes).unwrap();
    Sig::read(&envelope.members).unwrap().unwrap().verify(&envelope.members, key).unwrap();
    envelope
}

fn main() {
    let signer = Signer::from_seed(&[7; 32]);
    let public = signer.public_key();
    let key = SigningKey::Ed25519(Box::new(signer.clone()));
    let shared = SigningKey::Hs256(vec![9; 32]);
    let (signed, maced) = (letter(&key), letter(&shared));
    let (check, check_shared) = (VerifyingKey::Ed25519(public), VerifyingKey::Hs256(vec![9; 32]));
    let found = members(&signed).unwrap();
    let bound = input(&found, Scope::Whole).unwrap();
    let bare = signer.sign(&bound);
    let mut figures = [
        Figure::new("validation and verification, Ed25519", || drop(black_box(judged(&signed, &check)))),
        Figure::new("yardstick: `verify_strict` over the same bytes", || {
            assert!(black_box(public.made(&bare, black_box(&bound))));
        }),
        Figure::new("validation and verification, HS256", || drop(black_box(judged(&maced, &check_shared)))),
        Figure::new("validation alone", || drop(black_box(read(black_box(&signed)).unwrap()))),
        Figure::new("the bytes under the signature (RFC 8785)", || {
            drop(black_box(input(black_box(&found), Scope::Whole).unwrap()));
        }),
        Figure::new("the hash", || drop(black_box(hash(black_box(&found))))),
    ];
    for _ in 0..ROUNDS {
        figures.iter_mut().for_each(Figure::round);
    }
    report(signed.len(), &mut figures);
}

fn report(bytes: usize, figures: &mut [Figure<'_>]) {
    let medians: Vec<f64> = figures.iter_mut().map(Figure::median).collect();
    let mark = if medians[0] < AIM { "met" } else { "missed" };
    let mut text = format!(
        "An envelope of {bytes} bytes on one core; the median of {ROUNDS} batches of {BATCH}, taken in turns.\n\
         Aim: validation and verification in less than {AIM} µs ({mark}; {:.2} of the yardstick).\n\n\
         | | µs per envelope | per second |\n|---|---|---|\n",
        medians[0] / medians[1]
    );
    for (figure, median) in figures.iter().zip(&medians) {
        writeln!(text, "| {} | {median:.1} | {:.0} |", figure.name, 1e6 / median).unwrap();
    }
    println!("{text}");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench-results");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("law.md"), &text).unwrap();
    println!("written to bench-results/law.md");
}

//! Crates depend downwards only (ARCHITECTURE.md, "The crates").

use std::collections::BTreeSet;
use std::fs;

use super::{none, root};

/// Our crates, from the lowest to the highest, each with those that it may depend on. The root package may
/// depend on all.
const CRATES: [(&str, &[&str]); 19] = [
    ("domain", &[]),
    ("runtime", &["domain"]),
    ("oidc", &["domain"]),
    ("store", &["domain", "runtime"]),
    ("kernel", &["domain", "runtime", "store"]),
    ("openintent", &["domain", "runtime", "store", "kernel"]),
    ("arcp", &["domain", "runtime", "store", "kernel"]),
    ("aee", &["domain", "runtime", "store", "kernel"]),
    ("moments", &["domain", "runtime", "store", "kernel"]),
    ("bridges", &["domain", "runtime", "store", "kernel", "openintent", "arcp", "aee", "moments"]),
    ("http", &["domain", "runtime", "kernel"]),
    ("openintent-api", &["domain", "kernel", "openintent", "http"]),
    // A job shows the questions that it waits for.
    ("arcp-api", &["domain", "runtime", "kernel", "arcp", "moments", "http"]),
    ("aee-api", &["domain", "kernel", "aee", "http"]),
    // A2A has no operations of its own: its tasks are ARCP's jobs.
    ("a2a-api", &["domain", "runtime", "kernel", "arcp", "http"]),
    ("moments-api", &["domain", "kernel", "moments", "http"]),
    ("api", API_MAY_NAME),
    ("client", &["domain", "runtime"]),
    // Judges by the specifications alone: a fault of ours must not hide in both.
    ("conform", &[]),
];

/// What the crate that joins the interfaces may depend on: not the store.
const API_MAY_NAME: &[&str] = &[
    "domain",
    "runtime",
    "kernel",
    "openintent",
    "arcp",
    "aee",
    "moments",
    "bridges",
    "oidc",
    "http",
    "openintent-api",
    "arcp-api",
    "aee-api",
    "a2a-api",
    "moments-api",
];

/// Returns the crates of ours that a manifest names, itself apart.
fn ours(manifest: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in manifest.lines().filter(|line| !line.starts_with('#') && !line.starts_with("name ")) {
        for part in line.split("entente-").skip(1) {
            found.insert(
                part.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-')
                    .next()
                    .unwrap(),
            );
        }
    }
    found
}

/// Returns the faults of a crate's manifest.
fn faults_of(name: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
        return vec![format!("crates/{name} is not in the list of crates")];
    };
    let mut faults = Vec::new();
    if !manifest.contains(&format!("name = \"entente-{name}\"\n")) {
        faults.push(format!("crates/{name} does not have its folder's name"));
    }
    for other in ours(manifest).iter().filter(|other| !allowed.contains(other)) {
        faults.push(format!("crates/{name} depends on entente-{other}, which is not below it"));
    }
    faults
}

#[test]
fn crates_depend_downwards() {
    for (index, (name, allowed)) in CRATES.iter().enumerate() {
        for below in *allowed {
            let is_lower = CRATES[..index].iter().any(|(known, _)| known == below);
            assert!(is_lower, "{name} may not depend on {below}, which comes later in the list");
        }
    }
    let mut faults = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        faults.extend(faults_of(&name, &fs::read_to_string(folder.join("Cargo.toml")).unwrap()));
        count += 1;
    }
    none(&faults);
    assert_eq!(count, CRATES.len(), "the list of crates names one that is not there");
}

#[test]
fn every_form_of_a_dependency_counts() {
    let store = "[package]\nname = \"entente-store\"\ndescription = \"PostgreSQL.\"\n\n[dependencies]\n";
    let with = |lines: &str| faults_of("store", &format!("{store}{lines}\n"));
    assert_eq!(with("# Not entente-api.\nentente-domain.workspace = true\nsqlx.workspace = true"), [""; 0]);
    for line in [
        "entente-kernel.workspace = true",
        "entente-kernel = { path = \"../kernel\" }",
        "kernel = { package = \"entente-kernel\", path = \"../kernel\" }",
        "\n[dev-dependencies]\nentente-kernel.workspace = true",
        "\n[dependencies.entente-kernel]\nworkspace = true",
    ] {
        assert_eq!(with(line), ["crates/store depends on entente-kernel, which is not below it"], "{line}");
    }
    assert_eq!(faults_of("stores", store), ["crates/stores is not in the list of crates"]);
    assert_eq!(faults_of("kernel", store), ["crates/kernel does not have its folder's name"]);
}

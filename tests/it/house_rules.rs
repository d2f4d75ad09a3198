//! Rules of this repository that the compiler does not check (ARCHITECTURE.md, "Rules"), checked on the source
//! text.

mod circles;
mod citations;
mod crates;
mod folders;
mod indexes;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a file and of a function.
const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;

/// Longer files, each with its maximum. This list may only shrink.
const LONG_FILES: [(&str, usize); 0] = [];

/// Longer functions. This list may only shrink.
const LONG_FUNCTIONS: [(&str, &str); 2] =
    [("crates/kernel/src/log/guarded_write.rs", "write_more"), ("src/config.rs", "read")];

/// Words that a crate or folder must not contain, in addition to the limits of its Cargo.toml. Comments do not
/// count.
const FORBIDDEN: [(&str, &[&str]); 24] = [
    ("crates/domain/src/", &["tokio::", "reqwest::", "std::env", "std::fs", "Utc::now"]),
    ("crates/runtime/src/", &["sqlx::", "actix_web"]),
    ("crates/store/src/", &["sqlx::query"]),
    ("crates/kernel/src/", &["StatusCode", " now()"]),
    ("crates/kernel/src/wakeups.rs", &["sqlx::", "crate::Ctx"]),
    ("crates/kernel/src/feed/frame.rs", &["sqlx::", "crate::Ctx"]),
    ("crates/kernel/src/feed/mod.rs", &["sqlx::", "crate::Ctx"]),
    ("crates/kernel/src/feed/topic.rs", &["sqlx::", "crate::Ctx"]),
    ("crates/openintent/src/", &["StatusCode", " now()"]),
    ("crates/arcp/src/", &["StatusCode", " now()"]),
    ("crates/aee/src/", &["StatusCode", " now()"]),
    ("crates/moments/src/", &["StatusCode", " now()"]),
    ("crates/bridges/src/", &["StatusCode", " now()"]),
    ("crates/http/src/", &["sqlx::", "entente_store", "reqwest::", "spawn("]),
    ("crates/openintent-api/src/", &["sqlx::", "entente_store", "reqwest::", "spawn("]),
    ("crates/arcp-api/src/", &["sqlx::", "entente_store", "reqwest::", "spawn("]),
    ("crates/aee-api/src/", &["sqlx::", "entente_store", "reqwest::", "spawn("]),
    ("crates/a2a-api/src/", &["sqlx::", "entente_store", "reqwest::", "spawn("]),
    ("crates/moments-api/src/", &["sqlx::", "entente_store", "reqwest::", "spawn("]),
    ("crates/api/src/", &["sqlx::", "entente_store", "reqwest::", "spawn("]),
    ("crates/client/src/", &["sqlx::", "actix_web"]),
    ("crates/conform/src/", &["sqlx::", "actix_web", "spawn("]),
    ("src/background/", &["actix_web", "entente_api", "reqwest::", "sqlx::query"]),
    ("src/cli/", &["sqlx::query", "actix_web"]),
];

/// Exempt files: the server's only HTTP client, and what outlives its request: a connection, and a bundle that is read.
const EXEMPT: [(&str, &str); 3] = [
    ("src/background/egress.rs", "reqwest::"),
    ("crates/arcp-api/src/transport/session.rs", "spawn("),
    ("crates/api/src/bridges/bundles.rs", "spawn("),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every Rust file of these folders: its path from the root, and its text.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(found.len() > 10, "no sources were found");
    found
}

/// Whether a file is part of the program, not of its tests or benchmarks.
fn is_program(name: &str) -> bool {
    name.starts_with("src/") || name.split('/').nth(2) == Some("src")
}

fn program() -> Vec<(String, String)> {
    sources(&["src", "crates"]).into_iter().filter(|(name, _)| is_program(name)).collect()
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Returns the lines of code without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

#[test]
fn every_file_says_what_it_is_for() {
    let all = sources(&["src", "crates", "tests", "benches"]);
    let silent = all.iter().filter(|(_, text)| !text.starts_with("//! "));
    none(
        &silent
            .map(|(name, _)| format!("{name} does not open with `//!`: its role, and what it leaves out"))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn floors_only_speak_downwards() {
    let mut faults = Vec::new();
    for (name, text) in program() {
        for (folder, words) in FORBIDDEN {
            for word in words.iter().filter(|_| name.starts_with(folder)) {
                let exempt = EXEMPT.contains(&(name.as_str(), *word));
                if !exempt && code(&text).any(|line| line.contains(word)) {
                    faults.push(format!("{name} speaks of `{word}`"));
                }
            }
        }
    }
    none(&faults);
}

#[test]
fn only_one_place_each() {
    let places = [
        ("tracker.spawn(", "crates/runtime/src/tasks.rs"),
        ("Utc::now", "crates/runtime/src/environment.rs"),
        ("getrandom::", "crates/runtime/src/environment.rs"),
        ("env::var(", "src/config.rs crates/client/src/remote.rs"),
        ("Config::from_environment", "src/cli/"),
        // One client for the commands, which talk to a server, one for the server, which talks to webhook receivers, and
        // one for the checks of foreign servers.
        (
            "reqwest::Client::",
            "crates/client/src/remote.rs crates/conform/src/command.rs src/background/egress.rs",
        ),
        ("PgPoolOptions", "crates/store/src/lib.rs"),
        ("pg_notify(", "crates/kernel/src/nodes.rs crates/store/src/engine.rs"),
        ("PgListener", "src/background/peers/bus.rs crates/store/src/pool.rs"),
    ];
    let mut faults = Vec::new();
    for (word, place) in places {
        let speakers: Vec<String> = program()
            .into_iter()
            .filter(|(_, text)| code(text).any(|line| line.contains(word) && !line.contains("tasks.spawn(")))
            .map(|(name, _)| name)
            .collect();
        if speakers.iter().any(|name| !place.split(' ').any(|place| name.starts_with(place))) {
            faults.push(format!("`{word}` belongs into {place} alone, and is in {speakers:?}"));
        }
        if speakers.is_empty() {
            faults.push(format!("`{word}` is nowhere: this rule watches nothing any more"));
        }
    }
    none(&faults);
}

/// Returns the tables that the migrations create.
fn tables() -> BTreeSet<String> {
    let mut tables = BTreeSet::new();
    for entry in fs::read_dir(root().join("migrations")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
                tables.insert(rest.split([' ', '(']).next().unwrap().to_owned());
            }
        }
    }
    assert!(tables.len() > 8, "{tables:?}");
    tables
}

/// Tables that only migrations write, and functions of the schema.
const BY_MIGRATIONS: [&str; 4] = ["log_order", "log_sequencer", "log_unsequenced", "schema_floor"];

#[test]
fn a_table_is_written_by_one_file() {
    let verbs = ["INSERT INTO ", "UPDATE ", "DELETE FROM "];
    let mut writers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in program() {
        for table in tables() {
            let writes = verbs.iter().any(|verb| {
                text.match_indices(&format!("{verb}{table}")).any(|(at, found)| {
                    !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            });
            if writes {
                writers.entry(table).or_default().insert(name.clone());
            }
        }
    }
    // The hot path's statement writes several tables at once; it is the only exception.
    let own = |name: &&String| *name != "crates/kernel/src/log/guarded_write.rs";
    let shared = writers.iter().filter(|(_, files)| files.iter().filter(own).count() > 1);
    none(&shared.map(|(table, files)| format!("`{table}` is written by {files:?}")).collect::<Vec<_>>());
    let written = writers.keys().cloned().chain(BY_MIGRATIONS.map(str::to_owned)).collect::<BTreeSet<_>>();
    assert_eq!(written, tables(), "a table that nobody writes");
}

/// Two followers with one lock would stop each other.
#[test]
fn advisory_locks_are_different() {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in program() {
        for line in code(&text).filter(|line| line.contains(": i64 = 0x")) {
            let key = line.split(" = ").nth(1).unwrap().trim_end_matches(';').to_owned();
            owners.entry(key).or_default().push(name.clone());
        }
    }
    assert!(owners.len() > 5, "no locks were found");
    let shared = owners.iter().filter(|(_, files)| files.len() > 1);
    none(&shared.map(|(key, files)| format!("{key}: {}", files.join(", "))).collect::<Vec<_>>());
}

#[test]
fn every_query_is_checked_and_has_a_name() {
    let mut faults = Vec::new();
    let mut names = BTreeSet::new();
    for (name, text) in program() {
        // A file that names the columns of its rows once has a macro for it, `select!`, whose first argument is the
        // label. The macro `seen!` of moments also takes its label from there.
        for (at, call) in text.match_indices("select!(").chain(text.match_indices("seen!(")) {
            let label = text[at + call.len()..].split('"').nth(1).unwrap();
            if !names.insert(label.to_owned()) {
                faults.push(format!("{name}: two queries are called `{label}`"));
            }
        }
        for (at, call) in text.match_indices("sqlx::query") {
            let rest = &text[at + call.len()..];
            let (form, rest) = rest.split_once('(').unwrap();
            if !form.ends_with('!') {
                faults.push(format!("{name}: `sqlx::query{form}` is not checked by the compiler"));
                continue;
            }
            let sql = rest.split_once('"').unwrap().1;
            if sql.starts_with("-- \" + $name") {
                continue;
            }
            let Some(label) = sql.strip_prefix("-- ").and_then(|sql| sql.split(['\n', '\\', ' ']).next())
            else {
                faults.push(format!("{name}: a query does not open with `-- noun::verb`"));
                continue;
            };
            if !names.insert(label.to_owned()) && !label.starts_with("writer::") {
                faults.push(format!("{name}: two queries are called `{label}`"));
            }
        }
    }
    none(&faults);
    assert!(names.len() > 60, "only {} queries were found", names.len());
}

/// Returns the functions of a formatted file: name, first line and number of lines.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let words = trimmed.split(" fn ").next().unwrap();
        let begins = trimmed.starts_with("fn ")
            || trimmed.contains(" fn ")
                && words.split(' ').all(|w| w.starts_with("pub") || w == "async" || w == "const");
        if !begins {
            continue;
        }
        if lines[start..]
            .iter()
            .find(|line| line.ends_with([';', '{']))
            .is_none_or(|line| line.ends_with(';'))
        {
            // A declaration without a body.
            continue;
        }
        let indent = &line[..line.len() - trimmed.len()];
        let end = format!("{indent}}}");
        let Some(length) = lines[start..].iter().position(|line| *line == end || line.ends_with("{}")) else {
            continue;
        };
        let name = trimmed.split("fn ").nth(1).unwrap().split(['(', '<']).next().unwrap();
        found.push((name.to_owned(), start + 1, length + 1));
    }
    found
}

#[test]
fn nothing_outgrows_the_house() {
    let mut faults = Vec::new();
    for (name, text) in sources(&["src", "crates", "tests", "benches"]) {
        let lines = text.lines().count();
        let allowed =
            LONG_FILES.iter().find(|(known, _)| *known == name).map_or(FILE_LINES, |(_, lines)| *lines);
        if lines > allowed {
            faults.push(format!("{name} has {lines} lines; {allowed} is the most: which noun is missing?"));
        }
        for (function, at, lines) in functions(&text) {
            if lines > FUNCTION_LINES && !LONG_FUNCTIONS.contains(&(name.as_str(), function.as_str())) {
                faults.push(format!(
                    "{name}:{at} `{function}` has {lines} lines; {FUNCTION_LINES} is the most"
                ));
            }
        }
    }
    none(&faults);
}

#[test]
fn nothing_is_left_lying_about() {
    // Concatenated here, so that this file does not match itself.
    let words = [
        ["FIX", "ME"],
        ["TO", "DO"],
        ["X", "XX"],
        ["todo", "!("],
        ["dbg", "!("],
        ["#[all", "ow("],
        ["#![all", "ow("],
    ];
    let mut faults = Vec::new();
    for (name, text) in sources(&["src", "crates", "tests", "benches"]) {
        for word in words.map(|parts| parts.concat()) {
            if text.contains(&word) {
                faults.push(format!("{name} has `{word}`"));
            }
        }
    }
    none(&faults);
}

/// Returns the schema names that the OpenAPI document takes from Rust types, each with the places of their
/// declarations.
fn schemas() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in program() {
        for part in text.split("#[derive(").skip(1) {
            let (derived, rest) = part.split_once(")]").unwrap();
            if !derived.contains("ToSchema") {
                continue;
            }
            // The declaration follows; only attributes stand between.
            let declared =
                ["struct ", "enum "].iter().filter_map(|word| Some((rest.find(word)?, word.len())));
            // A macro that generates the declaration has no name here; there the attribute names it.
            let (at, word) = declared.min().unwrap_or((rest.len(), 0));
            let said =
                rest[..at].split("#[schema(as = ").nth(1).map(|name| name.split([')', ',']).next().unwrap());
            let own = rest[at + word..].split([' ', '<', '(', ';']).next().unwrap();
            found.entry(said.unwrap_or(own).to_owned()).or_default().push(format!("{file}: {own}"));
        }
    }
    found
}

#[test]
fn every_schema_has_a_name_of_its_own() {
    // If two types have one name, the document contains only the last and uses it for both.
    let found = schemas();
    assert!(found.len() > 100, "only {} schemas were found", found.len());
    let doubled = found.iter().filter(|(_, places)| places.len() > 1);
    none(&doubled.map(|(name, places)| format!("`{name}` is {}", places.join(" and "))).collect::<Vec<_>>());
}

#[test]
fn migrations_only_go_forward() {
    let mut names: Vec<String> = fs::read_dir(root().join("migrations"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in &names {
        let (version, rest) = name.split_once('_').unwrap();
        assert!(
            version.len() == 14 && version.bytes().all(|b| b.is_ascii_digit()),
            "{name}: no time in front"
        );
        assert!(Path::new(rest).extension().is_some_and(|end| end == "sql"), "{name}");
        assert!(!rest.contains(".down."), "{name} goes back");
    }
    assert!(names.len() >= 7);
}

#[test]
fn what_conformance_claims_is_tested() {
    let claims = fs::read_to_string(root().join("CONFORMANCE.md")).unwrap();
    let mut tests = BTreeSet::new();
    for (name, text) in sources(&["tests", "crates", "src"]) {
        let file = Path::new(&name).file_stem().unwrap().to_str().unwrap().to_owned();
        tests.extend(functions(&text).into_iter().map(|(function, _, _)| format!("{file}::{function}")));
    }
    let folders = ["tests/clients", "clients/python/tests"];
    let python = folders.into_iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let python = python.map(|entry| entry.unwrap().path());
    for path in python.filter(|path| path.extension().is_some_and(|end| end == "py")) {
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let defined = text
            .lines()
            .filter_map(|line| line.trim_start().trim_start_matches("async ").strip_prefix("def "));
        tests.extend(defined.map(|rest| format!("{file}::{}", rest.split('(').next().unwrap())));
    }
    let mut rows = 0;
    let mut faults = Vec::new();
    for line in claims.lines().filter(|line| line.starts_with("| ")) {
        for quoted in line.split('`').skip(1).step_by(2).filter(|word| word.contains("::")) {
            rows += 1;
            if !tests.contains(quoted) {
                faults.push(format!("CONFORMANCE.md names `{quoted}`, which is no test"));
            }
        }
    }
    none(&faults);
    assert!(rows > 50, "only {rows} tests are named");
}

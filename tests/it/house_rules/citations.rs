//! Citations of facts on the wire: code, tests and pages cite items of docs/wire by their numbers, and no document
//! that this repository does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{none, root};

/// The pages of docs/wire, each with the prefix of its anchors.
const PAGES: [(&str, &str); 7] = [
    ("a2a.md", "A2A-W-"),
    ("openintent.md", "OI-"),
    ("bundle.md", "BN-"),
    ("arcp.md", "ARCP-W-"),
    ("aee.md", "AEE-W-"),
    ("moments.md", "BM-W-"),
    ("mcp.md", "MCP-W-"),
];

/// Folders that are searched, besides the files at the root.
const FOLDERS: [&str; 9] =
    ["crates", "src", "tests", "benches", "docs", "examples", "fuzz", "migrations", "scripts"];

/// Folders with files that are not this repository's own.
const SKIPPED: [&str; 3] = ["node_modules", "target", "__pycache__"];

/// Endings of the files that are searched.
const ENDINGS: [&str; 6] = ["rs", "md", "py", "sh", "sql", "example"];

/// Marks at the beginning of a commented line: a citation may continue on the next line.
const MARKS: [&str; 7] = ["//", "///", "//!", "#", ">", "-", "--"];

/// Returns every file that may cite: its path from the root, and its text.
pub(super) fn texts() -> Vec<(String, String)> {
    let mut left: Vec<PathBuf> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    let mut files: Vec<PathBuf> = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if !path.is_dir() {
                files.push(path);
            } else if !name.starts_with('.') && !SKIPPED.contains(&name) {
                left.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for path in files {
        let ends = path.extension().and_then(|end| end.to_str());
        if path.is_file() && ends.is_some_and(|end| ENDINGS.contains(&end)) {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Returns the anchors of docs/wire, each of which is unique and labels its own item.
fn anchors() -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (page, prefix) in PAGES {
        let text = fs::read_to_string(root().join("docs/wire").join(page)).unwrap();
        let before = anchors.len();
        for part in text.split("<a id=\"").skip(1) {
            let (id, label) = part.split_once("\"></a>").unwrap();
            assert!(id.starts_with(prefix), "docs/wire/{page}: `{id}` does not begin with `{prefix}`");
            let label = label.trim_start_matches('*').split(['*', ' ']).next().unwrap();
            assert_eq!(label, id, "docs/wire/{page}: the label of an anchor");
            assert!(anchors.insert(id.to_owned()), "docs/wire/{page}: `{id}` is there twice");
        }
        assert!(anchors.len() > before, "docs/wire/{page} has no anchors");
    }
    anchors
}

/// Returns the words of a text with their line numbers, without the marks of comments.
fn words(text: &str) -> Vec<(usize, &str)> {
    let numbered = text.lines().enumerate();
    let all = numbered.flat_map(|(index, line)| line.split_whitespace().map(move |word| (index + 1, word)));
    all.filter(|(_, word)| !MARKS.contains(word)).collect()
}

/// Whether two successive words cite a document that is not in this repository.
fn is_foreign(word: &str, next: &str) -> bool {
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let next = next.trim_start_matches(['`', '*', '"']);
    let is_numbered = next.trim_start_matches(['#', '§']).starts_with(|c: char| c.is_ascii_digit());
    match word.as_str() {
        "contract" | "contracts" | "issue" => is_numbered,
        "design" => is_numbered && next.starts_with('§'),
        _ => false,
    }
}

/// Returns the citations with a prefix in a line, without the full stop of a sentence; the prefix alone for one
/// without a number.
fn cited<'a>(line: &'a str, prefix: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(prefix) {
        let (before, rest) = (&line[..at], &line[at + prefix.len()..]);
        let is_part = before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        if is_part || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '§') {
            continue;
        }
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = rest[..length].trim_end_matches('.');
        found.push(&line[at..at + prefix.len() + number.len()]);
    }
    found
}

/// Returns every citation of docs/wire in a text, with its line number.
fn citations(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (_, prefix) in PAGES {
            found.extend(cited(line, prefix).into_iter().map(|citation| (index + 1, citation)));
        }
    }
    found
}

/// Returns the faults of a text's citations, with their line numbers.
fn faults_of(text: &str, anchors: &BTreeSet<String>) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for pair in words(text).windows(2) {
        if let [(line, word), (_, next)] = pair
            && is_foreign(word, next)
        {
            faults.push((*line, format!("`{word} {next}` cites what is not in this repository")));
        }
    }
    for (line, citation) in citations(text) {
        if !anchors.contains(citation) {
            faults.push((line, format!("`{citation}` is no anchor in docs/wire/")));
        }
    }
    faults
}

#[test]
fn citations_lead_to_pages_of_this_repository() {
    let anchors = anchors();
    // The faulty samples are put together here, so that this file does not find itself.
    let samples = [
        (true, "/// Never these letters (OI-3.5.3), see ARCP-W-4.2.\n/// A contract in writing.".to_owned()),
        (true, "A design for two, an issue of names, `OI-` before a number.".to_owned()),
        (false, ["/// As said (contract", " 3.5)."].concat()),
        (false, ["//! As said in Contract", "\n//! 11.2, and then"].concat()),
        (false, ["# Keys (design", " §3): made once"].concat()),
        (false, ["It stops (issue", " #16)."].concat()),
        (false, ["(OI-", "99.1)"].concat()),
        (false, ["ARCP-W-", "4.2.99."].concat()),
        (false, ["BM-W-", "veto"].concat()),
    ];
    for (is_lawful, text) in samples {
        assert_eq!(faults_of(&text, &anchors).is_empty(), is_lawful, "{text}");
    }
    let texts = texts();
    let pages = texts.iter().filter(|(name, _)| name.starts_with("docs/wire/")).count();
    assert_eq!(pages, PAGES.len(), "docs/wire has a page that `PAGES` does not name");
    let mut faults = Vec::new();
    let mut count = 0;
    for (name, text) in &texts {
        count += if name.starts_with("docs/wire/") { 0 } else { citations(text).len() };
        let found = faults_of(text, &anchors);
        faults.extend(found.into_iter().map(|(line, fault)| format!("{name}:{line} {fault}")));
    }
    none(&faults);
    assert!(count > 200, "only {count} citations were found");
}

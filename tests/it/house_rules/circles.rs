//! Circles of imports: modules that name each other, directly or through others, cannot be read or changed one at a
//! time. Paths are read from the source text; macros are not expanded.

use std::collections::{BTreeMap, BTreeSet};

use super::{none, program};

/// Maximum number of modules in one circle: of the first-level modules of a crate (one: no circle), and of the modules
/// of any other folder.
const IN_CRATE: usize = 1;
const IN_FOLDER: usize = 3;

/// The modules of a folder, each with those that it names.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// A file of a crate: its module path from the crate's root, and the module paths that it names.
struct Module {
    path: Vec<String>,
    names: Vec<Vec<String>>,
}

/// Returns the length of the rest of a string or character, with its closing mark.
fn closing(text: &str, mark: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c == mark {
            return at + 1;
        }
    }
    text.len()
}

/// Returns the length of the comment, string or character that a text begins with, if it begins with one.
fn skipped(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    match (chars.next()?, chars.next()?) {
        ('/', '/') => Some(text.find('\n').unwrap_or(text.len())),
        ('/', '*') => Some(text[2..].find("*/").map_or(text.len(), |end| end + 4)),
        ('"', _) => Some(1 + closing(&text[1..], '"')),
        ('r', '"' | '#') => {
            let hashes = text[1..].find(|c: char| c != '#')?;
            let body = text[1 + hashes..].strip_prefix('"')?;
            let end = format!("\"{}", "#".repeat(hashes));
            Some(body.find(&end).map_or(text.len(), |at| hashes + 2 + at + end.len()))
        }
        ('\'', '\\') => Some(1 + closing(&text[1..], '\'')),
        // A lifetime has no closing mark.
        ('\'', c) => text[1 + c.len_utf8()..].starts_with('\'').then_some(2 + c.len_utf8()),
        _ => None,
    }
}

/// Returns the code without its comments, strings and characters.
fn bare(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest).unwrap_or_else(|| {
            code.push(first);
            first.len_utf8()
        });
        rest = &rest[length..];
    }
    code
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the paths of a `use` declaration: `a::{b, c as d}` names `a::b` and `a::c`.
fn leaves(prefix: &str, tree: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in tree.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(c);
        }
    }
    let mut found = Vec::new();
    for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        if let Some((stem, rest)) = part.split_once('{') {
            found.extend(leaves(&format!("{prefix}{stem}"), rest.strip_suffix('}').unwrap_or(rest)));
        } else {
            found.push(format!("{prefix}{}", part.split(" as ").next().unwrap().trim()));
        }
    }
    found
}

/// Returns the paths that code names: in its `use` declarations, and elsewhere those that begin with `crate` or
/// `super`.
fn named(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for statement in code.split(';') {
        let used = statement.match_indices("use ").find(|(at, _)| !statement[..*at].ends_with(is_word));
        let (before, tree) =
            used.map_or((statement, ""), |(at, word)| (&statement[..at], &statement[at + word.len()..]));
        found.extend(leaves("", tree));
        for (at, _) in before.match_indices("crate::").chain(before.match_indices("super::")) {
            if !before[..at].ends_with(|c: char| is_word(c) || c == ':') {
                let rest = &before[at..];
                let length = rest.find(|c: char| !is_word(c) && c != ':').unwrap_or(rest.len());
                found.push(rest[..length].to_owned());
            }
        }
    }
    found
}

/// Returns the module path, from the crate's root, of a path that the module `own` names, unless it leads to another
/// crate.
fn resolved(own: &[String], name: &str) -> Option<Vec<String>> {
    let mut parts = name.split("::").peekable();
    let mut path = match parts.next()? {
        "crate" => Vec::new(),
        "self" => own.to_vec(),
        "super" => own[..own.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    while parts.next_if_eq(&"super").is_some() {
        path.pop();
    }
    path.extend(parts.map(str::to_owned));
    Some(path)
}

/// Returns a file of a crate, from its path below `src/` and its text; the path of the crate's root is empty.
fn module(file: &str, text: &str) -> Module {
    let mut path: Vec<String> =
        file.strip_suffix(".rs").unwrap_or(file).split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod") || path == ["lib"] || path == ["main"] {
        path.pop();
    }
    let names = named(&bare(text)).iter().filter_map(|name| resolved(&path, name)).collect();
    Module { path, names }
}

/// Returns the first part of a module path below a folder.
fn below<'a>(folder: &[String], path: &'a [String]) -> Option<&'a str> {
    path.strip_prefix(folder)?.first().map(String::as_str)
}

/// Returns which module of a folder names which; a module includes the files in its own folder.
fn graph<'a>(modules: &'a [Module], folder: &[String]) -> Graph<'a> {
    let inside = modules.iter().filter_map(|module| below(folder, &module.path));
    let mut graph: Graph<'a> = inside.map(|own| (own, BTreeSet::new())).collect();
    for module in modules {
        let Some(own) = below(folder, &module.path) else { continue };
        for other in module.names.iter().filter_map(|name| below(folder, name)) {
            if other != own && graph.contains_key(other) {
                graph.entry(own).or_default().insert(other);
            }
        }
    }
    graph
}

/// Returns the modules that lead on from a module, in any number of steps.
fn reachable<'a>(graph: &Graph<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![from];
    while let Some(node) = left.pop() {
        for next in graph.get(node).into_iter().flatten() {
            if found.insert(*next) {
                left.push(*next);
            }
        }
    }
    found
}

/// Returns the circles of a graph: its strongly connected components of more than one module.
fn circles<'a>(graph: &Graph<'a>) -> BTreeSet<BTreeSet<&'a str>> {
    let reached: Graph<'a> = graph.keys().copied().map(|node| (node, reachable(graph, node))).collect();
    let around = |node: &'a str| -> BTreeSet<&'a str> {
        reached[node].iter().copied().filter(|other| reached[other].contains(node)).collect()
    };
    graph.keys().copied().map(around).filter(|circle| !circle.is_empty()).collect()
}

/// Returns the circles of a crate that are too large, each with its folder. `root` is the crate's `src`.
fn faults_of(root: &str, modules: &[Module]) -> Vec<String> {
    let folders: BTreeSet<&[String]> = modules
        .iter()
        .flat_map(|module| (0..module.path.len()).map(move |depth| &module.path[..depth]))
        .collect();
    let mut faults = Vec::new();
    for folder in folders {
        let most = if folder.is_empty() { IN_CRATE } else { IN_FOLDER };
        for circle in circles(&graph(modules, folder)).into_iter().filter(|circle| circle.len() > most) {
            let mut place = vec![root];
            place.extend(folder.iter().map(String::as_str));
            let names: Vec<&str> = circle.into_iter().collect();
            faults.push(format!(
                "{}/: {} modules import each other in a circle, {most} is the most: `{}`",
                place.join("/"),
                names.len(),
                names.join("`, `")
            ));
        }
    }
    faults
}

#[test]
fn no_module_comes_back_to_itself() {
    let files = program();
    let mut crates: BTreeMap<&str, Vec<Module>> = BTreeMap::new();
    for (name, text) in &files {
        let end = name.find("src/").unwrap() + 3;
        crates.entry(&name[..end]).or_default().push(module(&name[end + 1..], text));
    }
    let named = crates.values().flatten().map(|module| module.names.len()).sum::<usize>();
    assert!(named > 1000, "only {named} paths were found");
    none(&crates.iter().flat_map(|(root, modules)| faults_of(root, modules)).collect::<Vec<_>>());
}

#[test]
fn a_circle_is_found_through_any_form_of_path() {
    let modules = [
        ("lib.rs", "pub mod a;\nuse crate::c::X;"),
        ("a.rs", "use std::fmt;\npub(crate) use crate::{\n    b::{self, B as C},\n    d,\n};"),
        ("b/mod.rs", "fn f() -> Option<super::c::X> { None }"),
        ("b/x.rs", "use super::super::e;\nuse super::y::Y;"),
        ("b/y.rs", "use self::z::Z;\nuse crate::b::x;"),
        ("b/y/z.rs", "use super::super::super::c;"),
        ("c.rs", "fn f() { let because = 1; crate::a::g('\"'); }"),
        ("d.rs", "// use crate::a;\nuse a::A;\nconst E: &str = \"use crate::e;\";"),
        ("e.rs", "use super::d;"),
    ]
    .map(|(file, text)| module(file, text));
    let edges = |folder: &[String]| {
        let graph = graph(&modules, folder);
        let shown = graph.iter().map(|(own, others)| {
            format!("{own}: {}", others.iter().copied().collect::<Vec<_>>().join(" ")).trim_end().to_owned()
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(edges(&[]), "a: b d, b: c e, c: a, d:, e: d");
    assert_eq!(edges(&["b".to_owned()]), "x: y, y: x");
    assert_eq!(circles(&graph(&modules, &[])), BTreeSet::from([BTreeSet::from(["a", "b", "c"])]));
    assert_eq!(
        faults_of("src", &modules),
        ["src/: 3 modules import each other in a circle, 1 is the most: `a`, `b`, `c`"],
        "two in a folder are few enough"
    );
    let text = "a(\"x\\\"y\", '\"', 'b', '\\'', r#\"\"q\"#, r#use); // c\n&'a T /* d */";
    assert_eq!(bare(text), "a(, , , , , r#use); \n&'a T ");
}

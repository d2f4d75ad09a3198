//! Indexes are built without blocking writes (CONTRIBUTING.md, "A migration").

use std::fs;

use super::{none, root};

/// Returns the faults of the indexes that a migration creates (CONTRIBUTING.md, "A migration").
fn index_faults(text: &str) -> Vec<&'static str> {
    let plain: String = code_of_sql(text).to_uppercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let statements: Vec<&str> = plain.split(';').map(str::trim).filter(|one| !one.is_empty()).collect();
    let is_index = |one: &&&str| one.contains(" INDEX ") && !one.starts_with("CREATE TABLE");
    let made: Vec<&str> = statements
        .iter()
        .filter_map(|one| one.strip_prefix("CREATE TABLE "))
        .map(|rest| rest.split([' ', '(']).next().unwrap())
        .collect();
    let mut faults = Vec::new();
    for one in statements.iter().filter(is_index) {
        let table = one.split(" ON ").nth(1).and_then(|rest| rest.split([' ', '(']).next());
        if one.contains(" CONCURRENTLY ") {
            if statements.len() > 1 || !text.starts_with("-- no-transaction\n") {
                faults.push("CONCURRENTLY needs a file of its own that begins with `-- no-transaction`");
            }
        } else if table.is_none_or(|table| !made.contains(&table)) {
            faults.push("an index on a table that is there is made CONCURRENTLY");
        }
    }
    faults
}

fn code_of_sql(text: &str) -> String {
    text.lines().map(|line| line.split("--").next().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_index_is_made_while_everybody_works() {
    for (lawful, text) in [
        (true, "CREATE TABLE t (id bigint);\nCREATE INDEX t_by_id ON t (id);"),
        (true, "-- no-transaction\nCREATE INDEX CONCURRENTLY t_by_id\n    ON t (id);\n"),
        (true, "ALTER TABLE t ADD COLUMN c text; -- no index on c; it is small"),
        (false, "CREATE UNIQUE INDEX t_by_id ON t (id);"),
        (false, "DROP INDEX t_by_id;"),
        (false, "CREATE INDEX CONCURRENTLY t_by_id ON t (id);"),
        (false, "-- no-transaction\nDROP INDEX CONCURRENTLY a;\nCREATE INDEX CONCURRENTLY b ON t (id);"),
    ] {
        assert_eq!(index_faults(text).is_empty(), lawful, "{text}");
    }
    let mut faults = Vec::new();
    for entry in fs::read_dir(root().join("migrations")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let found = index_faults(&fs::read_to_string(path).unwrap());
        faults.extend(found.into_iter().map(|fault| format!("{name}: {fault}")));
    }
    none(&faults);
}

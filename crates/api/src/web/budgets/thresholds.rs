//! Thresholds of a budget in a form: one row for each consequence, so that two rows with the same percentage are one threshold.

use std::collections::BTreeMap;

use entente_domain::refusal::{Code, Refusal};
use entente_domain::spending::{Asked, Degrade, Threshold};

/// Rows of an empty form, and empty rows behind those that are filled.
const ROWS: usize = 3;
const SPARE: usize = 2;
/// Rows that are read at most: more than a budget may have thresholds, each with all its consequences.
const MOST: usize = 100;
/// The word for a list without patterns.
const NOTHING: &str = "nothing";

/// Consequences of a threshold: the name of each in the form, and its words.
pub const CONSEQUENCES: [(&str, &str); 5] = [
    ("tell", "record an event"),
    ("models", "allow only these models"),
    ("tools", "allow only these tools"),
    ("ask", "ask this person"),
    ("stop", "stop whom the budget is for"),
];

/// A row of the form.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Share of the limit, in per cent.
    pub percent: String,
    /// Name of the consequence.
    pub then: String,
    /// The person, or the patterns of models or tools.
    pub whom: String,
}

impl Row {
    fn new(percent: u32, then: &str, whom: String) -> Self {
        Self { percent: percent.to_string(), then: then.to_owned(), whom }
    }

    fn is_empty(&self) -> bool {
        self.percent.is_empty() && self.whom.is_empty() && matches!(self.then.as_str(), "" | "tell")
    }
}

/// Returns the rows to show: those that are filled, and some empty ones.
pub fn padded(mut rows: Vec<Row>) -> Vec<Row> {
    rows.resize_with((rows.len() + SPARE).max(ROWS), Row::default);
    rows
}

/// Reads the filled rows of a form. The fields are `at1`, `then1`, `whom1` and so on.
pub fn rows(fields: &BTreeMap<String, String>) -> Vec<Row> {
    let field = |name: &str, at: usize| {
        fields.get(&format!("{name}{at}")).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let row = |at| Row { percent: field("at", at), then: field("then", at), whom: field("whom", at) };
    (1..=MOST).map(row).filter(|row| !row.is_empty()).collect()
}

/// Returns the rows of thresholds.
pub fn rows_of(thresholds: &[Threshold]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in thresholds {
        let before = rows.len();
        let lists = one.degrade.iter().flat_map(|d| [("models", &d.models), ("tools", &d.tools)]);
        for (then, patterns) in lists {
            rows.extend(patterns.as_ref().map(|patterns| Row::new(one.percent, then, listed(patterns))));
        }
        rows.extend(one.ask.as_ref().map(|asked| Row::new(one.percent, "ask", asked.person.clone())));
        rows.extend(one.stop.then(|| Row::new(one.percent, "stop", String::new())));
        if rows.len() == before {
            rows.push(Row::new(one.percent, "tell", String::new()));
        }
    }
    rows
}

/// Returns rows as one text, to compare them.
pub fn text(rows: &[Row]) -> String {
    let text = |row: &Row| format!("{} {} {}", row.percent, row.then, row.whom).trim_end().to_owned();
    rows.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Writes a list of patterns.
pub fn listed(patterns: &[String]) -> String {
    if patterns.is_empty() { NOTHING.to_owned() } else { patterns.join(", ") }
}

/// Returns the consequences of a threshold, in words.
pub fn words(threshold: &Threshold) -> String {
    let mut words = Vec::new();
    if let Some(degrade) = &threshold.degrade {
        let lists = [("models", &degrade.models), ("tools", &degrade.tools)];
        for (what, patterns) in lists {
            words.extend(
                patterns.as_ref().map(|list| format!("only these {what} are allowed: {}", listed(list))),
            );
        }
    }
    words.extend(threshold.ask.as_ref().map(|asked| format!("{} is asked", asked.person)));
    words.extend(threshold.stop.then(|| "whom it is for is stopped".to_owned()));
    if words.is_empty() { "an event is recorded".to_owned() } else { words.join("; ") }
}

/// Reads the thresholds of rows.
///
/// # Errors
/// A row lacks something, or its percentage is no number. The budget itself checks the rest.
pub fn read(rows: &[Row]) -> Result<Vec<Threshold>, Refusal> {
    let mut found: BTreeMap<u32, Threshold> = BTreeMap::new();
    for row in rows {
        let percent = row.percent.trim_end_matches('%').trim_end().parse().map_err(|_no_number| {
            wrong(&format!(
                "\"{}\" is no percentage of a threshold. Write a whole number such as 80.",
                row.percent
            ))
        })?;
        let threshold = found.entry(percent).or_insert_with(|| Threshold { percent, ..Threshold::default() });
        add(threshold, row)?;
    }
    Ok(found.into_values().collect())
}

fn wrong(what: &str) -> Refusal {
    Refusal::field(Code::InvalidRequest, "thresholds", "value", what.to_owned())
}

/// Adds the consequence of a row to its threshold.
fn add(threshold: &mut Threshold, row: &Row) -> Result<(), Refusal> {
    let percent = threshold.percent;
    let lacks = |what: &str| Err(wrong(&format!("The threshold at {percent} % lacks {what}.")));
    match row.then.as_str() {
        "models" | "tools" => {
            if row.whom.is_empty() {
                return lacks(&format!(
                    "the {} to allow, such as *-mini. Write \"{NOTHING}\" to allow none",
                    row.then
                ));
            }
            let degrade = threshold.degrade.get_or_insert_with(Degrade::default);
            let list = if row.then == "models" { &mut degrade.models } else { &mut degrade.tools };
            let patterns =
                row.whom.split(',').map(str::trim).filter(|one| !one.is_empty() && *one != NOTHING);
            list.get_or_insert_with(Vec::new).extend(patterns.map(str::to_owned));
        }
        "ask" => {
            if row.whom.is_empty() {
                return lacks("the person to ask");
            }
            if threshold.ask.is_some() {
                return Err(wrong(&format!(
                    "The threshold at {percent} % asks two people. Name one of them."
                )));
            }
            threshold.ask = Some(Asked { person: row.whom.clone() });
        }
        "stop" => threshold.stop = true,
        _ => {}
    }
    if matches!(row.then.as_str(), "tell" | "stop") && !row.whom.is_empty() {
        let message = format!(
            "The threshold at {percent} % names \"{}\", but says neither to ask that person nor to allow these models or tools. \
             Choose what follows, or empty the field.",
            row.whom
        );
        return Err(wrong(&message));
    }
    Ok(())
}

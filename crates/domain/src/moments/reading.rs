//! Parses the eight slots from JSON, with one set of rules for the server, the pages, the terminal and MCP. Emitted
//! questions are checked more strictly than received ones: an agent can fix its question, a surface cannot.

use serde_json::{Map, Value};

use super::brief::{Brief, Choice, Hatches, Meta, Question};
use super::text::plain;
use super::words::is_blank;
use crate::canonical::text;
use crate::limits::{MOMENT_BYTES, MOMENT_LIST_ITEMS, MOMENT_TEXT_BYTES, NAME_BYTES};
use crate::payload::questions::MEMBER;
use crate::refusal::{Code, FieldError, Refusal};

/// Number of options of a question (binding moment §5.6).
const OPTIONS: std::ops::RangeInclusive<usize> = 2..=4;

/// Maximum number of errors reported: input with more is not a question at all.
const FAULTS: usize = 100;

/// Origin of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// From an agent that asks it now: no blank texts, sizes within the limits, hatches optional.
    Emitted,
    /// Received by a surface: exactly by §4.
    Received,
}

/// Path to a member of the question.
type Place<'p> = &'p [&'p str];

struct Reader {
    strictness: Strictness,
    faults: Vec<FieldError>,
}

/// Parses a question, or returns all its errors.
pub(super) fn read(value: &Value, strictness: Strictness) -> Result<Brief, Vec<FieldError>> {
    let mut reader = Reader { strictness, faults: Vec::new() };
    let brief = reader.brief(value);
    match brief {
        Some(brief) if reader.faults.is_empty() => Ok(brief),
        _ => Err(reader.faults),
    }
}

/// Builds the refusal of a question with these errors.
pub(super) fn refused(faults: Vec<FieldError>) -> Refusal {
    let message = match faults.as_slice() {
        [one] => format!("The question is not one that may be asked: {}.", one.msg),
        many => {
            format!("The question is not one that may be asked, in {} places; `errors` has each.", many.len())
        }
    };
    Refusal { errors: faults, ..Refusal::new(Code::InvalidMoment, message) }
}

impl Reader {
    fn add(&mut self, place: Place<'_>, kind: &str, what: &str) {
        if self.faults.len() == FAULTS {
            return;
        }
        let path: String = place.iter().flat_map(|part| ["/".to_owned(), plain(part)]).collect();
        let named = if path.is_empty() { "the question" } else { &path };
        let loc = ["body", MEMBER].iter().chain(place).map(|part| (*part).to_owned()).collect();
        self.faults.push(FieldError { kind: kind.to_owned(), loc, msg: format!("{named} {what}") });
    }

    fn is_emitted(&self) -> bool {
        self.strictness == Strictness::Emitted
    }

    /// Requires an object with all `required` members, and no others except `optional` ones.
    fn object<'v>(
        &mut self,
        value: &'v Value,
        place: Place<'_>,
        required: &[&str],
        optional: &[&str],
    ) -> Option<&'v Map<String, Value>> {
        let Some(members) = value.as_object() else {
            self.add(place, "object_type", "must be an object");
            return None;
        };
        for name in required.iter().filter(|name| !members.contains_key(**name)) {
            self.add(&[place, &[*name]].concat(), "missing", "is missing");
        }
        let known = |name: &str| required.contains(&name) || optional.contains(&name);
        for name in members.keys().filter(|name| !known(name)) {
            self.add(&[place, &[name.as_str()]].concat(), "unknown", "is no member of a question (§4)");
        }
        Some(members)
    }

    /// Reads a text, if present; [`Reader::object`] checks presence.
    fn text(&mut self, value: Option<&Value>, place: Place<'_>, most: usize) -> Option<String> {
        let value = value?;
        let Some(text) = value.as_str() else {
            self.add(place, "string_type", "must be a text");
            return None;
        };
        if self.is_emitted() {
            if is_blank(text) {
                self.add(place, "blank", "is blank; say it in words");
            } else if text.len() > most {
                self.add(place, "too_long", &format!("has {} bytes, at most {most} are taken", text.len()));
            } else if text.contains('\0') {
                self.add(place, "nul_character", "has a NUL character, which cannot be stored");
            }
        }
        Some(text.to_owned())
    }

    fn texts(&mut self, value: Option<&Value>, name: &str) -> Option<Vec<String>> {
        let Some(items) = value?.as_array() else {
            self.add(&[name], "list_type", "must be a list of texts");
            return None;
        };
        if self.is_emitted() && items.len() > MOMENT_LIST_ITEMS {
            let what = format!("has {} entries, at most {MOMENT_LIST_ITEMS} are taken", items.len());
            self.add(&[name], "too_many", &what);
        }
        let mut texts = Vec::with_capacity(items.len().min(MOMENT_LIST_ITEMS));
        for (index, item) in items.iter().enumerate() {
            texts.push(self.text(Some(item), &[name, &index.to_string()], MOMENT_TEXT_BYTES));
        }
        texts.into_iter().collect()
    }

    fn brief(&mut self, value: &Value) -> Option<Brief> {
        let required = ["synopsis", "findings", "recommendations", "offer", "question"];
        let members = self.object(value, &[], &required, &["meta"])?;
        let synopsis = self.text(members.get("synopsis"), &["synopsis"], MOMENT_TEXT_BYTES);
        let findings = self.texts(members.get("findings"), "findings");
        let recommendations = self.texts(members.get("recommendations"), "recommendations");
        let offer = self.text(members.get("offer"), &["offer"], MOMENT_TEXT_BYTES);
        let question = members.get("question").map(|question| self.question(question));
        let meta = members.get("meta").map(|meta| self.meta(meta));
        let brief = Brief {
            synopsis: synopsis?,
            findings: findings?,
            recommendations: recommendations?,
            offer: offer?,
            question: question??,
            meta: match meta {
                None => None,
                Some(meta) => Some(meta?),
            },
        };
        let bytes = text(&brief).map_or(0, |written| written.len());
        if self.is_emitted() && bytes > MOMENT_BYTES {
            let what =
                format!("has {bytes} bytes, at most {MOMENT_BYTES} are taken; a person has to read it");
            self.add(&[], "too_large", &what);
        }
        Some(brief)
    }

    fn question(&mut self, value: &Value) -> Option<Question> {
        let place = |name| ["question", name];
        let mut required = vec!["stem", "options", "recommended_idx"];
        let hatches_optional: &[&str] = if self.is_emitted() { &["hatches"] } else { &[] };
        if !self.is_emitted() {
            required.push("hatches");
        }
        let members = self.object(value, &["question"], &required, hatches_optional)?;
        let stem = self.text(members.get("stem"), &place("stem"), MOMENT_TEXT_BYTES);
        let options = members.get("options").map(|options| self.options(options));
        let count = members.get("options").and_then(Value::as_array).map(Vec::len);
        let count = count.filter(|count| OPTIONS.contains(count));
        let recommended = members.get("recommended_idx").map(|index| self.recommended(index, count));
        let hatches = members.get("hatches").map(|hatches| self.hatches(hatches));
        Some(Question {
            stem: stem?,
            options: options??,
            recommended_idx: recommended??,
            hatches: hatches.unwrap_or(Some(Hatches::OPEN))?,
        })
    }

    fn options(&mut self, value: &Value) -> Option<Vec<Choice>> {
        let place = ["question", "options"];
        let Some(items) = value.as_array() else {
            self.add(&place, "list_type", "must be a list of two to four options (§5.6)");
            return None;
        };
        if !OPTIONS.contains(&items.len()) {
            let kind = if items.len() < *OPTIONS.start() { "too_few" } else { "too_many" };
            let what = format!("must have two to four options, and has {} (§5.6)", items.len());
            self.add(&place, kind, &what);
            return None;
        }
        let mut options = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let index = index.to_string();
            let place = ["question", "options", index.as_str()];
            let Some(members) = self.object(item, &place, &["label", "reasoning"], &[]) else { continue };
            let mut part =
                |name: &str| self.text(members.get(name), &[&place[..], &[name]].concat(), MOMENT_TEXT_BYTES);
            let (label, reasoning) = (part("label"), part("reasoning"));
            options.extend(label.zip(reasoning).map(|(label, reasoning)| Choice { label, reasoning }));
        }
        Some(options).filter(|options| options.len() == items.len())
    }

    /// Requires an integer: JSON readers disagree whether `1.0` is 1.
    fn recommended(&mut self, value: &Value, count: Option<usize>) -> Option<usize> {
        let place = ["question", "recommended_idx"];
        if !value.is_i64() && !value.is_u64() {
            self.add(&place, "int_type", "must be a whole number, the index of one option from 0 (§5.7)");
            return None;
        }
        let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
        let within = index.filter(|index| count.is_none_or(|count| *index < count));
        if within.is_none() {
            let last = count.map_or(0, |count| count.saturating_sub(1));
            self.add(
                &place,
                "out_of_range",
                &format!("is no option's index; they go from 0 to {last} (§5.7)"),
            );
        }
        within
    }

    fn hatches(&mut self, value: &Value) -> Option<Hatches> {
        // Both flags are REQUIRED (§5.8). Omitted hatches default to open; but if only one flag is given, the other
        // is not guessed (§11.5).
        let members = self.object(value, &["question", "hatches"], &["free_text", "dialogue"], &[])?;
        let mut flag = |name: &str| match members.get(name) {
            // Its absence is already reported.
            None => Some(true),
            Some(Value::Bool(is)) => Some(*is),
            Some(_) => {
                self.add(&["question", "hatches", name], "bool_type", "must be true or false (§5.8)");
                None
            }
        };
        let (free_text, dialogue) = (flag("free_text"), flag("dialogue"));
        Some(Hatches { free_text: free_text?, dialogue: dialogue? })
    }

    fn meta(&mut self, value: &Value) -> Option<Meta> {
        let names = ["decision_class", "calibration_note"];
        let members = self.object(value, &["meta"], &[], &names)?;
        let class = members.get("decision_class");
        let decision_class = self.text(class, &["meta", "decision_class"], NAME_BYTES);
        if self.is_emitted() && decision_class.iter().any(|class| class.chars().any(char::is_control)) {
            self.add(&["meta", "decision_class"], "control", "has a control character; it is a name");
        }
        let note = members.get("calibration_note");
        let calibration_note = self.text(note, &["meta", "calibration_note"], MOMENT_TEXT_BYTES);
        Some(Meta { decision_class, calibration_note })
    }
}

//! Words of stored texts, and searches for them. Both are brought to one plain form first: PostgreSQL's parser has rules for
//! URLs, hyphens and numbers, and would split a text otherwise than a search for a part of it.

use std::ops::Range;

use chrono::DateTime;
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::identity::keys::Scope;
use crate::refusal::{Code, Refusal};

/// Bytes of the words of one document: PostgreSQL takes a megabyte of them, and a long document is expensive to index. The
/// rest is not found.
pub const DOCUMENT_BYTES: usize = 64 * 1024;

/// Bytes of a word: a longer one is a blob that nobody types, and PostgreSQL would not index it.
const WORD_BYTES: usize = 255;

/// Bytes of a search: longer than anybody types.
const QUERY_BYTES: usize = 1_024;

/// Words of a search: each one costs a look-up.
const QUERY_WORDS: usize = 32;

/// Characters before and after the found word in an excerpt.
const AROUND: usize = 80;

/// Kind of a found object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// A message on a channel.
    Message,
    /// An event of an intent's log, or of the system log.
    Event,
    /// A job.
    Job,
}

impl SourceKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Message, Self::Event, Self::Job];

    /// Returns the kind's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Event => "event",
            Self::Job => "job",
        }
    }

    /// Reads a kind's word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the scope by which objects of this kind are read.
    #[must_use]
    pub fn scope(self) -> Scope {
        match self {
            Self::Message => Scope::ChannelsRead,
            Self::Event => Scope::IntentsRead,
            Self::Job => Scope::JobsRead,
        }
    }

    /// Reads a list of kinds, separated by commas.
    ///
    /// # Errors
    /// One of them is none.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, Refusal> {
        let each = text.split(',').map(|word| {
            Self::parse(word.trim()).ok_or_else(|| {
                let message =
                    format!("`kinds` has `{}`. Name some of `message`, `event` and `job`.", word.trim());
                Refusal::field(Code::InvalidRequest, "kinds", "value", message)
            })
        });
        each.collect()
    }
}

/// Place of a document among all, newest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Time of the source.
    pub at: Timestamp,
    /// The log that it is in; the job itself.
    pub source_id: Uuid,
    /// Its number in the log; 0 of a job.
    pub seq: i64,
}

impl Place {
    /// Returns the cursor of the page that begins after this place.
    #[must_use]
    pub fn cursor(&self) -> String {
        format!("cur_{}_{}_{}", self.at.timestamp_micros(), self.source_id.simple(), self.seq)
    }

    /// Reads a cursor.
    ///
    /// # Errors
    /// [`Self::cursor`] has not made it.
    pub fn parse(cursor: &str) -> Result<Self, Refusal> {
        let read = || {
            let mut parts = cursor.strip_prefix("cur_")?.split('_');
            let at = DateTime::from_timestamp_micros(parts.next()?.parse().ok()?)?;
            let place = Self { at, source_id: parts.next()?.parse().ok()?, seq: parts.next()?.parse().ok()? };
            (place.cursor() == cursor).then_some(place)
        };
        read().ok_or_else(|| {
            let message = "`cursor` is none of this search's. Begin without one.";
            Refusal::field(Code::InvalidRequest, "cursor", "value", message)
        })
    }
}

/// The words of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// Lower-case words, separated by spaces.
    pub text: String,
    /// Whether words at the end were left out.
    pub is_cut: bool,
}

impl Words {
    /// Adds the words of a text.
    pub fn add(&mut self, text: &str) {
        for word in plain(text) {
            if self.text.len() + word.len() >= DOCUMENT_BYTES {
                self.is_cut = true;
                return;
            }
            if word.len() > WORD_BYTES {
                self.is_cut = true;
                continue;
            }
            self.text.push_str(&word);
            self.text.push(' ');
        }
    }
}

/// Whether a character is a word of its own: in scripts without spaces between words.
fn stands_alone(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Returns the words of a text in lower case.
fn plain(text: &str) -> impl Iterator<Item = String> {
    let mut chars = text.chars().flat_map(char::to_lowercase).peekable();
    std::iter::from_fn(move || {
        while chars.next_if(|char| !char.is_alphanumeric()).is_some() {}
        let first = chars.next()?;
        let mut word = String::from(first);
        if !stands_alone(first) {
            while let Some(char) = chars.next_if(|char| char.is_alphanumeric() && !stands_alone(*char)) {
                word.push(char);
            }
        }
        Some(word)
    })
}

/// Returns the string values of a JSON text in their order, without the names of members. A text that ends early, or is nested
/// deeper than a parser accepts, gives those that it has.
#[must_use]
pub fn strings(json: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = json.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '"' {
            continue;
        }
        let mut text = String::new();
        while let Some(char) = chars.next() {
            match char {
                '"' => break,
                '\\' => text.push(unescaped(&mut chars)),
                char => text.push(char),
            }
        }
        while chars.next_if(char::is_ascii_whitespace).is_some() {}
        if chars.peek() != Some(&':') && !text.is_empty() {
            found.push(text);
        }
    }
    found
}

/// Returns the character of an escape sequence; a space for one that is none, such as half of a pair.
fn unescaped(chars: &mut impl Iterator<Item = char>) -> char {
    match chars.next() {
        Some('u') => {
            let digits: String = chars.take(4).collect();
            u32::from_str_radix(&digits, 16)
                .ok()
                .and_then(char::from_u32)
                .filter(|char| *char != '\0')
                .unwrap_or(' ')
        }
        Some(char @ ('"' | '\\' | '/')) => char,
        _ => ' ',
    }
}

/// A search for words: all of them, `"words in this order"`, `or`, and `-without`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The search for PostgreSQL's `websearch_to_tsquery`, with words in the form of [`Words`].
    pub text: String,
    /// Words that a found document may have, for its excerpt.
    words: Vec<String>,
}

impl Query {
    /// Parses a search.
    ///
    /// # Errors
    /// It is too long, or has no word that a document must have.
    pub fn parse(said: &str) -> Result<Self, Refusal> {
        let refused =
            |reason, message: String| Err(Refusal::field(Code::InvalidRequest, "q", reason, message));
        if said.len() > QUERY_BYTES {
            return refused(
                "too_long",
                format!("`q` has more than {QUERY_BYTES} bytes. Search for fewer words."),
            );
        }
        let mut query = Self { text: String::new(), words: Vec::new() };
        let (mut is_quoted, mut is_excluded, mut count) = (false, false, 0);
        for part in parts(said) {
            match part {
                "\"" => {
                    query.text.push('"');
                    is_quoted = !is_quoted;
                    is_excluded &= is_quoted;
                }
                "-" if !is_quoted => {
                    query.text.push('-');
                    is_excluded = true;
                }
                part => {
                    let words: Vec<String> = plain(part).collect();
                    count += words.len();
                    query.push(&words, is_quoted);
                    if !is_excluded && (is_quoted || !part.eq_ignore_ascii_case("or")) {
                        query.words.extend(words);
                    }
                    is_excluded &= is_quoted;
                }
            }
        }
        if count > QUERY_WORDS {
            return refused("too_long", format!("`q` has more than {QUERY_WORDS} words. Search for fewer."));
        }
        if query.words.is_empty() {
            let message = "`q` must have a word to search for: letters or digits, not excluded by `-`.";
            return refused("value", message.to_owned());
        }
        Ok(query)
    }

    /// Adds the words of one part; several are a phrase, because the text that they are part of has them in this order.
    fn push(&mut self, words: &[String], is_quoted: bool) {
        let is_phrase = words.len() > 1 && !is_quoted;
        if is_phrase {
            self.text.push('"');
        }
        self.text.push_str(&words.join(" "));
        if is_phrase {
            self.text.push('"');
        }
        self.text.push(' ');
    }

    /// Returns the first of the words in the first text that has any, with the text around it; the beginning of the
    /// first text if none has any.
    #[must_use]
    pub fn excerpt<'a>(&self, mut texts: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
        let hit = texts.clone().find_map(|text| Some((text, self.place(text)?)));
        let (text, at) = hit.or_else(|| texts.next().map(|text| (text, 0)))?;
        let begin = text[..at].char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
        let end = text[at..].char_indices().nth(2 * AROUND).map_or(text.len(), |(more, _)| at + more);
        let inner = text[begin..end].split(|char: char| char.is_whitespace() || char.is_control());
        let inner = inner.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let (before, after) = (if begin > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
        Some(format!("{before}{inner}{after}"))
    }

    /// Splits a text at the words that were searched for, to show them; the parts together are the text.
    #[must_use]
    pub fn marked<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let mut end = 0;
        for word in self.found(text) {
            parts.push(Part { text: &text[end..word.start], is_word: false });
            end = word.end;
            parts.push(Part { text: &text[word], is_word: true });
        }
        parts.push(Part { text: &text[end..], is_word: false });
        parts.retain(|part| !part.text.is_empty());
        parts
    }

    /// Returns where a text has one of the words.
    fn place(&self, text: &str) -> Option<usize> {
        self.found(text).next().map(|word| word.start)
    }

    /// Returns where a text has the words, in order.
    fn found(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        let mut rest = text.char_indices().peekable();
        std::iter::from_fn(move || {
            loop {
                while rest.next_if(|(_, char)| !char.is_alphanumeric()).is_some() {}
                let (at, first) = rest.next()?;
                let mut end = at + first.len_utf8();
                if !stands_alone(first) {
                    while let Some((at, char)) =
                        rest.next_if(|(_, char)| char.is_alphanumeric() && !stands_alone(*char))
                    {
                        end = at + char.len_utf8();
                    }
                }
                let word = &text[at..end];
                if word.len() <= WORD_BYTES
                    && self.words.contains(&word.chars().flat_map(char::to_lowercase).collect())
                {
                    return Some(at..end);
                }
            }
        })
    }
}

/// A part of a text: one of the words that were searched for, or the text between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// The part as it is in the text.
    pub text: &'a str,
    /// Whether it is one of the words.
    pub is_word: bool,
}

/// Splits a search into quotation marks, exclusions and the texts between spaces.
fn parts(said: &str) -> impl Iterator<Item = &str> {
    let mut rest = said;
    let mut begins = true;
    std::iter::from_fn(move || {
        let trimmed = rest.trim_start_matches(|char: char| char.is_whitespace() || char.is_control());
        begins |= trimmed.len() < rest.len();
        rest = trimmed;
        let first = rest.chars().next()?;
        let length = match first {
            '"' => 1,
            '-' if begins => 1,
            _ => rest
                .find(|char: char| char == '"' || char.is_whitespace() || char.is_control())
                .unwrap_or(rest.len()),
        };
        begins = first == '"';
        let (part, more) = rest.split_at(length);
        rest = more;
        Some(part)
    })
}

//! Globs, as in the patterns of capabilities (ARCP §9.2, §9.4): matching, and coverage of one pattern by others.
//!
//! A pattern is anchored at both ends. `*` stands for any characters within one segment, `**` as a whole
//! segment for any number of segments, including none: `/w/**` covers `/w`. Slashes separate segments. Every
//! other character stands for itself, including `?` and `[`. `arcp/capabilities.rs` decides which texts may be
//! compared at all.
//!
//! Both questions are answered on the automaton of a pattern: matching runs a text through it; coverage
//! searches for a text that matches this pattern and none of the others. The simple globs of names are in
//! [`glob_matches`].

use std::collections::{BTreeSet, HashSet};

use crate::limits::NAME_BYTES;

/// Maximum bytes of a pattern, the same as for the paths it matches.
pub const PATTERN_BYTES: usize = 4 * NAME_BYTES;

/// Maximum states visited by the search for a counterexample (patterns written by people need a few dozen);
/// above it a pattern counts as not covered, because that is not proved (ARCP §9.4, ARCP-W-8.7).
const PLACES: usize = 5_000;

/// Maximum steps of one comparison of authorities in total (some tenths of a second); a pattern whose
/// coverage is not proved by then counts as not covered.
pub const WORK: usize = 1_000_000;

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    steps: Vec<Step>,
}

/// One state of the automaton; the state after the last one is the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Consumes this character and advances.
    Letter(char),
    /// Consumes any character except a slash and stays; or advances without consuming.
    Within,
    /// First of two states: skips both; or consumes a slash and advances to the second.
    Deeper,
    /// Second state: consumes a character except a slash and stays; or returns to the first.
    Segment,
    /// First of two states at the beginning: skips both; or consumes a character except a slash and advances
    /// to the second; or consumes a slash and stays.
    Lead,
    /// Second state: consumes a character except a slash and stays; or consumes a slash and returns to the
    /// first.
    LeadOn,
    /// Consumes any character and stays; or advances without consuming.
    All,
}

/// Error: the text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAGlob {
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It is too long.
    #[error("is longer than {PATTERN_BYTES} bytes")]
    TooLong,
    /// It has two adjacent stars that are not a whole segment.
    #[error(
        "has `**` that is not a whole segment; write `*` within a segment, `/**/` for any number of them"
    )]
    DoubleStar,
    /// It has a control character.
    #[error("has a control character")]
    Control,
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// See [`NotAGlob`].
    pub fn parse(pattern: &str) -> Result<Self, NotAGlob> {
        if pattern.is_empty() {
            return Err(NotAGlob::Empty);
        }
        if pattern.len() > PATTERN_BYTES {
            return Err(NotAGlob::TooLong);
        }
        if pattern.chars().any(char::is_control) {
            return Err(NotAGlob::Control);
        }
        let mut segments: Vec<&str> = pattern.split('/').collect();
        // Repeating `**` does not change the meaning.
        segments.dedup_by(|next, one| *next == "**" && *one == "**");
        let mut steps = Vec::new();
        let mut joined = true;
        for (index, segment) in segments.iter().enumerate() {
            let last = index + 1 == segments.len();
            match *segment {
                "**" if index == 0 && last => steps.push(Step::All),
                "**" if index == 0 => {
                    steps.extend([Step::Lead, Step::LeadOn]);
                    // The slash that follows is part of it.
                    joined = true;
                    continue;
                }
                "**" => steps.extend([Step::Deeper, Step::Segment]),
                _ if segment.contains("**") => return Err(NotAGlob::DoubleStar),
                _ => {
                    if !joined {
                        steps.push(Step::Letter('/'));
                    }
                    steps.extend(segment.chars().map(|letter| match letter {
                        '*' => Step::Within,
                        letter => Step::Letter(letter),
                    }));
                }
            }
            joined = false;
        }
        Ok(Self { steps })
    }

    /// Whether the pattern matches the whole of a text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let mut places = self.at(0);
        for letter in text.chars() {
            places = self.after(&places, letter);
            if places.is_empty() {
                return false;
            }
        }
        places.contains(&self.steps.len())
    }

    /// Whether every text that matches this pattern matches one of `others`; `false` also if that cannot be
    /// proved in a bounded time.
    #[must_use]
    pub fn is_covered_by(&self, others: &[Self]) -> bool {
        self.is_proved_covered(others, &mut WORK.clone())
    }

    /// Checks like [`Self::is_covered_by`] with at most `work` steps, and subtracts the steps used.
    ///
    /// Patterns that are equal, or covered by a single one, cost little.
    #[must_use]
    pub fn is_proved_covered(&self, others: &[Self], work: &mut usize) -> bool {
        let others: Vec<&Self> = others.iter().collect();
        others.contains(&self)
            || others.iter().any(|other| self.search(&[*other], work))
            || (others.len() > 1 && self.search(&others, work))
    }

    fn search(&self, others: &[&Self], work: &mut usize) -> bool {
        let letters = self.letters(others);
        let start: (BTreeSet<usize>, Vec<BTreeSet<usize>>) =
            (self.at(0), others.iter().map(|other| other.at(0)).collect());
        let mut seen = HashSet::from([start.clone()]);
        let mut open = vec![start];
        while let Some((mine, theirs)) = open.pop() {
            let matched = || others.iter().zip(&theirs).any(|(other, at)| at.contains(&other.steps.len()));
            if mine.contains(&self.steps.len()) && !matched() {
                return false;
            }
            for letter in &letters {
                let next = self.after(&mine, *letter);
                if next.is_empty() {
                    continue;
                }
                let cost = 1 + others.len();
                if *work < cost {
                    return false;
                }
                *work -= cost;
                let after = others.iter().zip(&theirs).map(|(other, at)| other.after(at, *letter)).collect();
                let place = (next, after);
                if seen.contains(&place) {
                    continue;
                }
                if seen.len() >= PLACES {
                    return false;
                }
                seen.insert(place.clone());
                open.push(place);
            }
        }
        true
    }

    /// Returns the characters that these patterns distinguish: those that they name, the slash, and one
    /// unnamed character that represents all others.
    fn letters(&self, others: &[&Self]) -> BTreeSet<char> {
        let steps = others.iter().flat_map(|other| &other.steps).chain(&self.steps);
        let mut letters: BTreeSet<char> = steps
            .filter_map(|step| if let Step::Letter(letter) = step { Some(*letter) } else { None })
            .collect();
        letters.insert('/');
        let unnamed = ('a'..='z').chain('\u{4e00}'..='\u{9fff}').find(|letter| !letters.contains(letter));
        letters.extend(unnamed);
        letters
    }

    /// Returns `state` and the states reached from it without consuming a character.
    fn at(&self, state: usize) -> BTreeSet<usize> {
        let mut places = BTreeSet::new();
        self.enter(state, &mut places);
        places
    }

    fn enter(&self, state: usize, places: &mut BTreeSet<usize>) {
        if !places.insert(state) {
            return;
        }
        match self.steps.get(state) {
            Some(Step::Within | Step::All) => self.enter(state + 1, places),
            Some(Step::Deeper | Step::Lead) => self.enter(state + 2, places),
            Some(Step::Segment) => self.enter(state - 1, places),
            Some(Step::Letter(_) | Step::LeadOn) | None => {}
        }
    }

    /// Returns the states reached by consuming one character.
    fn after(&self, places: &BTreeSet<usize>, letter: char) -> BTreeSet<usize> {
        let mut next = BTreeSet::new();
        for state in places {
            let slash = letter == '/';
            let to = match self.steps.get(*state) {
                Some(Step::Letter(named)) if *named == letter => state + 1,
                Some(Step::All) => *state,
                Some(Step::Within | Step::Segment | Step::LeadOn) if !slash => *state,
                Some(Step::Lead) if slash => *state,
                Some(Step::Deeper) if slash => state + 1,
                Some(Step::Lead) if !slash => state + 1,
                Some(Step::LeadOn) => state - 1,
                _ => continue,
            };
            self.enter(to, &mut next);
        }
        next
    }
}

/// Whether a glob matches a name: `*` stands for any run of characters, all other characters for themselves.
#[must_use]
pub fn glob_matches(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(rest) = name.strip_prefix(parts.next().unwrap_or("")) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    let mut rest = rest;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

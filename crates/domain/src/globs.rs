//! Globs of capability patterns (ARCP §9.2, §9.4): what they match, and whether one covers another.
//!
//! A pattern is anchored at both ends. `*` stands for any letters within one segment, `**` as a whole segment for any
//! number of segments, also none: `/w/**` covers `/w`. Segments are what stands between slashes. Every other letter stands
//! for itself, also `?` and `[`. Which texts may be compared at all is `capabilities.rs`.
//!
//! Both questions are answered on the automaton that a pattern is: matching runs a text through it; covering looks for a
//! text that the one matches and none of the others does. The plain globs of names are [`glob_matches`].

use std::collections::{BTreeSet, HashSet};

use crate::limits::NAME_BYTES;

/// Bytes of a pattern: as long as the paths that it is for.
pub const PATTERN_BYTES: usize = 4 * NAME_BYTES;

/// Places that the search for a counterexample may look at. Patterns that people write need a few dozen; what needs more
/// than this counts as not covered, because it is not proved (ARCP §9.4, contract 8).
const PLACES: usize = 5_000;

/// Steps that one comparison of authorities may take in all, however many patterns it has: some tenths of a second. What
/// is not proved by then counts as not covered.
pub const WORK: usize = 1_000_000;

/// A pattern that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    steps: Vec<Step>,
}

/// One state of the automaton. The state after the last one is the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// This letter, and on.
    Letter(char),
    /// Any letter but a slash, and stay; or on without one.
    Within,
    /// The first of two: on past both; or a slash, and to the second.
    Deeper,
    /// The second: a letter of a segment, and stay; or back to the first.
    Segment,
    /// The first of two, at the front: on past both; or a letter of a segment, and to the second; or a slash, and stay.
    Lead,
    /// The second: another letter of it; or a slash, and back to the first.
    LeadOn,
    /// Any letter, and stay; or on.
    All,
}

/// The text is no pattern, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAGlob {
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It is too long.
    #[error("is longer than {PATTERN_BYTES} bytes")]
    TooLong,
    /// It has two stars next to each other that are not a whole segment.
    #[error(
        "has `**` that is not a whole segment; write `*` within a segment, `/**/` for any number of them"
    )]
    DoubleStar,
    /// It has a letter that cannot be shown.
    #[error("has a control character")]
    Control,
}

impl Glob {
    /// Reads a pattern.
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
        // Any number of segments, twice in a row, is any number of segments.
        segments.dedup_by(|next, one| *next == "**" && *one == "**");
        let mut steps = Vec::new();
        let mut joined = true;
        for (index, segment) in segments.iter().enumerate() {
            let last = index + 1 == segments.len();
            match *segment {
                "**" if index == 0 && last => steps.push(Step::All),
                "**" if index == 0 => {
                    steps.extend([Step::Lead, Step::LeadOn]);
                    // The slash that follows is a part of it.
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

    /// Whether every text that this pattern matches is matched by one of `others`. `false` also when that cannot be
    /// proved in a bounded time.
    #[must_use]
    pub fn is_covered_by(&self, others: &[Self]) -> bool {
        self.is_proved_covered(others, &mut WORK.clone())
    }

    /// As [`Self::is_covered_by`], by no more than the steps in `work`, from which those that it takes are taken. Patterns
    /// that are equal, or covered by one alone, cost little.
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

    /// The letters that make a difference to these patterns: those that they name, the slash, and one that none names,
    /// which stands for all the others.
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

    /// The place `state`, and those that are reached from it without a letter.
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

    /// The places that one letter leads to.
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

/// Whether a glob matches a name: `*` stands for any run of characters, everything else for itself.
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

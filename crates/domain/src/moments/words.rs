//! Text normalisation for comparing questions: folding, word splitting, stemming and set similarity.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::LazyLock;

use unicase::UniCase;
use unicode_general_category::{GeneralCategory as Category, get_general_category};
use unicode_normalization::UnicodeNormalization as _;

/// Characters that take room but show nothing, in general categories that do not indicate this.
const EMPTY: [char; 6] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}', '\u{034f}'];

/// Returns whether a character shows nothing: blanks, controls and format characters.
fn is_unseen(one: char) -> bool {
    one.is_whitespace() || one.is_control() || is_ignored(one)
}

/// Returns whether a character is invisible: with it, a word differs for a program but not for a reader.
pub(super) fn is_ignored(one: char) -> bool {
    let selects = matches!(one, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
    selects || EMPTY.contains(&one) || (!one.is_ascii() && get_general_category(one) == Category::Format)
}

/// Returns whether a text shows nothing.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(is_unseen)
}

/// Folds a text: no compatibility forms (NFKC), no case, no invisible characters.
pub(super) fn folded(text: &str) -> String {
    let seen: String = text.nfkc().filter(|one| !is_ignored(*one)).collect();
    UniCase::unicode(seen).to_folded_case().nfkc().collect()
}

fn is_punctuation(one: char) -> bool {
    matches!(
        get_general_category(one),
        Category::ConnectorPunctuation
            | Category::DashPunctuation
            | Category::OpenPunctuation
            | Category::ClosePunctuation
            | Category::InitialPunctuation
            | Category::FinalPunctuation
            | Category::OtherPunctuation
    )
}

/// Returns the text without punctuation and blanks, so that texts that look the same to a reader are equal.
///
/// Symbols stay, and a text of nothing but punctuation is kept.
pub(super) fn key(text: &str) -> String {
    let folded = folded(text);
    let unseen = |one: char| one.is_whitespace() || one.is_control();
    let bare: String = folded.chars().filter(|one| !unseen(*one) && !is_punctuation(*one)).collect();
    if bare.is_empty() { folded.chars().filter(|one| !unseen(*one)).collect() } else { bare }
}

/// Returns the folded words of a text in order: runs of letters and digits, with apostrophes removed.
pub(super) fn words(text: &str) -> Vec<String> {
    let bare: String = folded(text).chars().filter(|one| !matches!(one, '\'' | '’' | 'ʼ')).collect();
    let split = bare.split(|one: char| !one.is_alphanumeric() && !is_mark(one));
    split.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Marks belong to the letter before them, in scripts that write vowels so.
fn is_mark(one: char) -> bool {
    matches!(get_general_category(one), Category::NonspacingMark | Category::SpacingMark)
}

/// Sorts and deduplicates the words.
pub(super) fn set(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup();
    words
}

/// Counts the common elements of two sorted sets.
pub(super) fn shared<T: Ord>(one: &[T], other: &[T]) -> usize {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut count = 0;
    while let (Some(left), Some(right)) = (one.peek(), other.peek()) {
        match left.cmp(right) {
            Ordering::Less => {
                one.next();
            }
            Ordering::Greater => {
                other.next();
            }
            Ordering::Equal => {
                count += 1;
                one.next();
                other.next();
            }
        }
    }
    count
}

/// Returns whether two sets have a Jaccard similarity of at least `percent`; false for two empty sets.
pub(super) fn jaccard_at_least<T: Ord>(percent: usize, one: &[T], other: &[T]) -> bool {
    let both = shared(one, other);
    let all = one.len() + other.len() - both;
    all > 0 && both * 100 >= percent * all
}

/// Returns whether at least nine in ten letters of a text are ASCII, as in English.
pub(super) fn is_english(text: &str) -> bool {
    let letters = text.chars().filter(|one| one.is_alphabetic()).count();
    let ascii = text.chars().filter(char::is_ascii_alphabetic).count();
    letters > 0 && ascii * 10 >= letters * 9
}

/// Stop words.
static SMALL: LazyLock<HashSet<&str>> = LazyLock::new(|| SMALL_WORDS.split_ascii_whitespace().collect());

const SMALL_WORDS: &str = "a about after again all also am an and any are as at be been before being both but by can could did do does \
     doing done each for from further had has have having he her here him his how i if in into is it its just may me might \
     more most must my no nor not of off on once only or other our out over own same shall she should so some such than that \
     the their them then there these they this those through to too under until up us very was we were what when where which \
     while who whom why will with would you your dont doesnt isnt its shouldnt wont wouldnt";

/// Returns the content words of an English text: stems without stop words, sorted and deduplicated.
pub(super) fn content(text: &str) -> Vec<String> {
    set(words(text)
        .into_iter()
        .filter(|word| !SMALL.contains(word.as_str()))
        .map(|word| stem(&word))
        .collect())
}

/// Returns a rough stem, so that "ships", "shipping" and "shipped" are one word.
pub(super) fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    let vowel = |part: &str| part.bytes().any(|byte| b"aeiouy".contains(&byte));
    let whole = word.strip_suffix("ies").map(|root| format!("{root}y"));
    let word = whole.as_deref().unwrap_or(word);
    let plural = word.strip_suffix('s').filter(|root| !root.ends_with(['s', 'u', 'i']));
    let word = plural.unwrap_or(word);
    let root = ["ing", "ed"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .filter(|root| root.len() >= 3 && vowel(root));
    let mut stem = root.unwrap_or(word).to_owned();
    if root.is_some() {
        let mut ends = stem.bytes().rev();
        let (last, before) = (ends.next(), ends.next());
        if last == before && last.is_some_and(|last| !b"aeiouls".contains(&last)) {
            stem.pop();
        }
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

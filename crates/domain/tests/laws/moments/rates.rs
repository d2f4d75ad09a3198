//! How well an agent asks: windows, thresholds, and the questions that do not count.

use entente_domain::moments::rates::{Asked, LEAST, rates};
use entente_domain::moments::{Hatches, ResolutionKind};

const PLAIN: Asked = Asked {
    calibration_note: false,
    hatches: Hatches::OPEN,
    answered: Some(ResolutionKind::Option),
    near_duplicate: false,
};
const NOTED: Asked = Asked { calibration_note: true, ..PLAIN };
const REFUSED: Asked = Asked { answered: Some(ResolutionKind::Dialogue), ..PLAIN };
const UNANSWERED: Asked = Asked { answered: None, ..PLAIN };
const FORCED: Asked = Asked { hatches: Hatches { free_text: true, dialogue: false }, ..PLAIN };

/// Returns `many` of one kind, followed by `then` of another.
fn so(many: usize, of: Asked, then: usize, others: Asked) -> Vec<Asked> {
    [vec![of; many], vec![others; then]].concat()
}

#[test]
fn of_nothing_there_is_nothing() {
    let none = rates(&[]);
    assert_eq!((none.asked, none.answered, none.near_duplicates), (0, 0, 0));
    for rate in [none.calibration_notes, none.refused, none.hatches_closed] {
        assert_eq!((rate.count, rate.of, rate.flagged), (0, 0, false));
        assert!(rate.share.abs() < f64::EPSILON);
    }
}

#[test]
fn calibration_notes_are_flagged_above_a_fifth_of_ten_or_more() {
    let flagged =
        |noted: usize, plain: usize| rates(&so(noted, NOTED, plain, PLAIN)).calibration_notes.flagged;
    assert!(!flagged(9, 0) && LEAST == 10);
    assert!(flagged(10, 0) && flagged(3, 7));
    assert!(!flagged(2, 8), "20 % is not above it");
    assert!(flagged(11, 39) && !flagged(10, 40));
    let old = rates(&so(50, PLAIN, 50, NOTED)).calibration_notes;
    assert_eq!((old.count, old.of, old.flagged), (0, 50, false), "the last fifty");
    let new = rates(&so(11, NOTED, 89, PLAIN)).calibration_notes;
    assert_eq!((new.count, new.of, new.flagged), (11, 50, true));
    assert!((new.share - 0.22).abs() < 1e-9);
}

#[test]
fn refusals_are_flagged_above_a_quarter_of_ten_or_more() {
    let rate = |asked: &[Asked]| rates(asked).refused;
    assert!(!rate(&so(9, REFUSED, 0, PLAIN)).flagged);
    assert!(rate(&so(3, REFUSED, 7, PLAIN)).flagged);
    assert!(!rate(&so(2, REFUSED, 8, PLAIN)).flagged);
    assert!(!rate(&so(5, REFUSED, 15, PLAIN)).flagged, "25 % is not above it");
    assert!(rate(&so(6, REFUSED, 14, PLAIN)).flagged);
    let old = rate(&so(20, PLAIN, 80, REFUSED));
    assert_eq!((old.count, old.of), (0, 20), "the last twenty");
    let words = Asked { answered: Some(ResolutionKind::FreeText), ..PLAIN };
    assert_eq!(rate(&so(10, words, 0, PLAIN)).count, 0, "own words accept the question");
}

#[test]
fn what_was_not_answered_or_could_not_be_refused_does_not_lower_the_rate() {
    for padding in [UNANSWERED, FORCED] {
        let rate = rates(&so(100, padding, 10, REFUSED)).refused;
        assert_eq!((rate.count, rate.of, rate.flagged), (10, 10, true));
    }
}

#[test]
fn closed_hatches_are_a_habit_above_a_fifth() {
    let rate = rates(&so(11, FORCED, 39, PLAIN)).hatches_closed;
    assert_eq!((rate.count, rate.of, rate.flagged), (11, 50, true));
    assert!(!rates(&so(10, FORCED, 40, PLAIN)).hatches_closed.flagged);
    let other = Asked { hatches: Hatches { free_text: false, dialogue: true }, ..PLAIN };
    assert_eq!(rates(&so(3, other, 7, FORCED)).hatches_closed.count, 10);
}

#[test]
fn near_duplicates_and_answers_are_counted() {
    let near = Asked { near_duplicate: true, ..UNANSWERED };
    let rates = rates(&so(3, near, 4, REFUSED));
    assert_eq!((rates.asked, rates.answered, rates.near_duplicates), (7, 4, 3));
}

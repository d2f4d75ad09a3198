//! Spelling: the known name that a misspelt one most likely means, so that a refusal can name the next step.

/// Distance up to which a name of any length counts as misspelt.
pub const SLIP: usize = 2;
/// Maximum bytes of a name that is compared: the work grows with the product of both lengths.
const COMPARED_BYTES: usize = 64;

/// Returns the most similar of the known names and its distance; `None` if none is similar.
///
/// Up to a third of the letters may differ, of a short name [`SLIP`] letters, but not all. Of equally similar names, the
/// first wins.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    if name.len() > COMPARED_BYTES {
        return None;
    }
    let most = (name.len() / 3).max(SLIP);
    let comparable = known.into_iter().filter(|known| known.len() <= COMPARED_BYTES);
    let measured = comparable
        .map(|known| (distance(name.as_bytes(), known.as_bytes()), known))
        .filter(|(distance, known)| *distance < name.len().max(known.len()));
    measured.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= most)
}

/// Returns the number of letters to insert, delete, replace or swap with a neighbour (optimal string alignment).
#[must_use]
pub fn distance(one: &[u8], other: &[u8]) -> usize {
    let width = other.len() + 1;
    let mut before_last: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, byte) in one.iter().enumerate() {
        let mut now = vec![row + 1; width];
        for (column, theirs) in other.iter().enumerate() {
            let changed = last[column] + usize::from(byte != theirs);
            let mut least = changed.min(last[column + 1] + 1).min(now[column] + 1);
            let swapped = row > 0 && column > 0 && one[row - 1] == *theirs && other[column - 1] == *byte;
            if swapped && byte != theirs {
                least = least.min(before_last[column - 1] + 1);
            }
            now[column + 1] = least;
        }
        before_last = std::mem::replace(&mut last, now);
    }
    last[width - 1]
}

//! Renders a question as plain text, for terminals and text-only tools (binding moment §8). Every slot is complete,
//! with each entry on its own line. Agent text can neither move a terminal's cursor nor imitate a line of the layout.

use std::fmt::Write as _;

use super::brief::Brief;
use crate::clock::Timestamp;
use crate::ids::MomentId;

/// Context of a rendered question.
#[derive(Debug, Clone, Copy)]
pub struct QuestionContext<'a> {
    /// Id of the moment, if the reader knows of one.
    pub id: Option<MomentId>,
    /// Asking agent, if the reader does not know it.
    pub agent_id: Option<&'a str>,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
    /// Current time: a date is only printed if it is not today.
    pub now: Timestamp,
    /// Answer to the objection against the previous question; printed above the question.
    pub objection_response: Option<&'a str>,
    /// URL where the principal answers, for readers that are not the principal; `None` omits the closing line.
    pub inbox_url: Option<&'a str>,
}

/// Renders the question as several lines of text, ending with a newline.
#[must_use]
pub fn text(brief: &Brief, shown: &QuestionContext<'_>) -> String {
    let mut lines = vec![head(brief, shown)];
    if let Some(response) = shown.objection_response {
        lines.push(format!("In answer to your objection: {}", plain(response)));
    }
    if let Some(note) = brief.calibration_note() {
        lines.push(format!("Note: {}", plain(note)));
    }
    lines.push(plain(&brief.synopsis));
    list(&mut lines, "Findings:", &brief.findings);
    list(&mut lines, "Recommended moves:", &brief.recommendations);
    lines.push(format!("({})", plain(&brief.offer)));
    lines.push(format!("Q: {}", plain(&brief.question.stem)));
    for (index, option) in brief.question.options.iter().enumerate() {
        let mark = if index == brief.question.recommended_idx { "  (recommended)" } else { "" };
        let (label, reasoning) = (plain(&option.label), plain(&option.reasoning));
        lines.push(format!("  {}) {label}{mark} - {reasoning}", index + 1));
    }
    let hatches = brief.question.hatches;
    let open = [
        (hatches.free_text, "  t) answer in your own words"),
        (hatches.dialogue, "  d) wrong question, let us talk"),
    ];
    lines.extend(open.into_iter().filter(|(is_open, _)| *is_open).map(|(_, line)| line.to_owned()));
    if let Some(url) = shown.inbox_url {
        let url = plain(url);
        lines.push(format!(
            "The principal answers at {url}; call check_decision to wait. Do not answer for them."
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn head(brief: &Brief, shown: &QuestionContext<'_>) -> String {
    let mut head = "DECISION NEEDED".to_owned();
    // Writing to a `String` cannot fail.
    if let Some(id) = shown.id {
        let _ = write!(head, " [{id}]");
    }
    if let Some(agent) = shown.agent_id {
        let _ = write!(head, "  from: {}", plain(agent));
    }
    if let Some(class) = brief.decision_class() {
        let _ = write!(head, "  class: {}", plain(class));
    }
    if let Some(at) = shown.expires_at {
        let _ = write!(head, "  expires {}", due(at, shown.now));
    }
    head
}

/// Formats a time to the minute, with the date if it is not today.
#[must_use]
pub fn due(at: Timestamp, now: Timestamp) -> String {
    if at.date_naive() == now.date_naive() {
        return at.format("%H:%MZ").to_string();
    }
    at.format("%Y-%m-%d %H:%MZ").to_string()
}

fn list(lines: &mut Vec<String>, title: &str, items: &[String]) {
    if items.is_empty() {
        return lines.push(format!("{title} none"));
    }
    lines.push(title.to_owned());
    lines.extend(items.iter().map(|item| format!("  - {}", plain(item))));
}

/// Renders a text as a single line that is safe for a terminal.
///
/// Control characters, line ends, bidirectional controls and invisible characters are escaped; everything else is unchanged.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            one if moves(one) => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(one));
            }
            one => shown.push(one),
        }
    }
    shown
}

/// Returns whether a character controls the display instead of being shown; joiners of letters and emoji are allowed.
fn moves(one: char) -> bool {
    one.is_control()
        || matches!(
            one,
            '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

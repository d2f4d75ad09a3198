//! The fold of look-alike characters: a disguised question is the same question, and plain ones stay apart.

use entente_domain::moments::look_alikes::fold;
use entente_domain::moments::{Brief, Vetoed, judge};
use entente_domain::refusal::{Code, Refusal};
use proptest::prelude::*;

use super::{asking, id};

const LABELS: [&str; 2] = ["Ship now", "Wait a day"];

/// Judges `asked` after `refused` was refused, with all that a new question needs.
fn judged(refused: &Brief, asked: &Brief) -> Result<Vec<&'static str>, Refusal> {
    let digest = refused.digest();
    let veto =
        Vetoed { id: id(1), brief: Some(refused), digest: &digest, deliberated: true, superseded: false };
    let lints = judge(asked, Some(id(1)), Some("It was answered."), &[veto])?;
    Ok(lints.into_iter().map(|lint| lint.code).collect())
}

/// Look-alikes of a character, of other scripts and widths.
fn look_alikes(one: char) -> &'static [char] {
    match one {
        'a' => &['а', 'ａ', 'ɑ', 'α', '𝐚'],
        'c' => &['с', 'ϲ', 'ｃ'],
        'd' => &['ԁ', 'ｄ'],
        'e' => &['е', 'ｅ', '℮'],
        'h' => &['һ', 'ｈ'],
        'i' => &['і', 'ι', 'ı'],
        'o' => &['о', 'ο', 'օ', 'ｏ'],
        'p' => &['р', 'ρ'],
        's' => &['ѕ', 'ｓ'],
        'v' => &['ν', 'ѵ'],
        'w' => &['ԝ', 'ｗ'],
        'x' => &['х', 'ｘ'],
        'y' => &['у', 'ү'],
        'A' => &['А', 'Α'],
        'B' => &['В', 'Β'],
        'E' => &['Е', 'Ε'],
        'H' => &['Н', 'Η'],
        'I' => &['І', 'Ι'],
        'K' => &['К', 'Κ'],
        'M' => &['М', 'Μ'],
        'N' => &['Ν'],
        'O' => &['О', 'Ο'],
        'P' => &['Р', 'Ρ'],
        'T' => &['Т', 'Τ'],
        'X' => &['Х', 'Χ'],
        'Y' => &['Υ', 'Ү'],
        'Z' => &['Ζ'],
        '0' => &['О', 'ο'],
        _ => &[],
    }
}

/// Characters that a reader does not see, and marks that make no other letter.
const DECORATIONS: [&str; 6] = ["", "\u{200b}", "\u{200d}", "\u{ad}", "\u{336}", "\u{332}"];

/// Disguises a text: each pick chooses a look-alike and a decoration of one character.
fn disguised(text: &str, picks: &[(usize, usize)]) -> String {
    let mut shown = String::new();
    for (one, (look, decoration)) in text.chars().zip(picks.iter().cycle()) {
        let looks = look_alikes(one);
        // Zero leaves the character as it is.
        shown.push(look.checked_sub(1).and_then(|nth| looks.get(nth)).copied().unwrap_or(one));
        if one.is_alphanumeric() {
            shown.push_str(DECORATIONS[*decoration]);
        }
    }
    shown
}

/// Disguises a text with look-alikes in ASCII: each pick chooses one for one character.
fn disguised_in_ascii(text: &str, picks: &[usize]) -> String {
    let looks = |one: char| match one {
        '0' => ["0", "O", "o", "0"],
        'O' | 'o' => ["0", "O", "o", "O"],
        '1' | 'l' => ["1", "I", "l", "|"],
        'L' => ["L", "l", "1", "|"],
        'm' => ["rn", "m", "Rn", "M"],
        'M' => ["RN", "M", "m", "rn"],
        _ => ["", "", "", ""],
    };
    let shown = text.chars().zip(picks.iter().cycle()).map(|(one, pick)| match looks(one)[*pick] {
        "" => one.to_string(),
        look => look.to_owned(),
    });
    shown.collect()
}

#[test]
fn known_disguises_are_seen_through() {
    let pairs = [
        ("When should it ship?", "Whеn ѕhоuld іt ѕhір?"),
        ("When should it ship?", "ＷＨＥＮ ＳＨＯＵＬＤ ＩＴ ＳＨＩＰ？"),
        ("When should it ship?", "W\u{200b}hen should\u{2060} it ship?"),
        ("When should it ship?", "W\u{336}h\u{336}e\u{336}n\u{336} should it ship?"),
        ("IS BOB IN?", "ІЅ ВОВ ΙΝ?"),
        ("Pay 100 now?", "Pay 1ОО now?"),
        ("Выпустить сейчас?", "Bыпуcтить ceйчac?"),
        ("Выпустить сейчас?", "ВЫПУCТИТЬ CЕЙЧАC?"),
        ("Größe ändern?", "Grӧße ändеrn?"),
    ];
    for (plain, disguised) in pairs {
        let outcome = judged(&asking(plain, &LABELS), &asking(disguised, &["Ѕhір nоw", "Wаit а dаy"]));
        assert_eq!(outcome.map_err(|refusal| refusal.code), Err(Code::SameQuestion), "{plain} {disguised}");
    }
}

/// UTS #39 has look-alikes within ASCII too: 0 O, 1 I l |, m rn.
#[test]
fn disguises_in_plain_ascii_are_seen_through() {
    let pairs = [
        ("Delete everything?", "De1ete everything?"),
        ("Delete everything?", "DeIete everything?"),
        ("Delete everything?", "De|ete everything?"),
        ("DELETE EVERYTHING?", "de1ete everything?"),
        ("In Iowa?", "ln lowa?"),
        ("In Iowa?", "in 1owa?"),
        ("Drop the old tables?", "Dr0p the 0ld tab1es?"),
        ("Remove the modem?", "Rernove the modern?"),
        ("REMOVE THEM?", "REM0VE THERN?"),
        ("Pay 100?", "Pay 1OO?"),
        ("Pay 100?", "Pay lOo?"),
        ("Pay １００?", "Pay I0O?"),
        ("Is it 10?", "Is it lO?"),
    ];
    for (plain, disguised) in pairs {
        for (refused, asked) in [(plain, disguised), (disguised, plain)] {
            let outcome = judged(&asking(refused, &LABELS), &asking(asked, &["WAIT A DAY", "Ship n0w"]));
            assert_eq!(outcome.map_err(|refusal| refusal.code), Err(Code::SameQuestion), "{refused} {asked}");
        }
    }
}

#[test]
fn a_disguise_and_another_word_is_nearly_the_same() {
    let refused = asking("one two three four five six seven eight nine?", &LABELS);
    let near = asking("оnе twо thrее fоur fіvе ѕіх ѕеvеn еіght ten?", &["Up", "Down"]);
    assert_eq!(judged(&refused, &near).unwrap(), ["near_duplicate_after_veto"]);
}

#[test]
fn what_reads_differently_stays_apart() {
    let pairs = [
        ("Pay 100?", "Pay 101?"),
        ("Pay 100?", "Pay 1OI?"),
        ("Pay 10?", "Pay 100?"),
        ("Pay 5?", "Pay S?"),
        ("Does it fail?", "Does it fall?"),
        ("Send the mail?", "Send the MALL?"),
        ("Ist es schon da?", "Ist es schön da?"),
        ("Bor hun her?", "Bør hun her?"),
        ("はか?", "ばか?"),
        ("土?", "士?"),
        ("ตี?", "ดี?"),
        ("١٠?", "١?"),
        ("كتب?", "كتاب?"),
        ("Pay 5€?", "Pay 5$?"),
        ("Preise um 5% erhöhen?", "Preise um 500 erhöhen?"),
        ("👍?", "👎?"),
    ];
    for (one, two) in pairs {
        let outcome = judged(&asking(one, &LABELS), &asking(two, &LABELS));
        assert!(outcome.is_ok(), "{one} {two}: {outcome:?}");
    }
}

/// Two texts in the same plain writing, without letters that have the same look.
fn plain_pair() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        ("[a-hj-ln-z2-9]{1,10}", "[a-hj-ln-z2-9]{1,10}"),
        ("[p-z]{0,3}[0-9]{1,6}", "[p-z]{0,3}[0-9]{1,6}"),
        ("[aäeéoöuüñ]{1,10}", "[aäeéoöuüñ]{1,10}"),
        ("[абвгдежзиклмнопрстуфхцчшэя]{1,10}", "[абвгдежзиклмнопрстуфхцчшэя]{1,10}"),
        ("[あかさたなばぱまアカサヘラ]{1,10}", "[あかさたなばぱまアカサヘラ]{1,10}"),
    ]
}

proptest! {
    #[test]
    fn folding_twice_is_folding_once(
        text: String,
        decorated in "[a-zäßé0-9а-яІА-Яα-ωΑ-Ω\u{300}-\u{338}\u{200b} ]{0,20}",
    ) {
        for text in [text, decorated] {
            let once = fold(&text);
            prop_assert_eq!(fold(&once), once);
        }
    }

    #[test]
    fn plain_questions_that_differ_stay_apart(pair in plain_pair()) {
        let (one, two) = pair;
        prop_assume!(one != two);
        prop_assert!(judged(&asking(&one, &LABELS), &asking(&two, &LABELS)).is_ok());
        prop_assert!(judged(&asking(&one, &LABELS), &asking(&one, &LABELS)).is_err());
    }

    #[test]
    fn numbers_that_differ_stay_apart(one in "[0-9]{1,9}", two in "[0-9]{1,9}", before in "[A-Za-z ]{0,9}") {
        prop_assume!(one != two);
        let [one, two] = [one, two].map(|number| asking(&format!("{before} {number} now?"), &LABELS));
        prop_assert!(judged(&one, &two).is_ok());
    }

    #[test]
    fn no_disguise_in_plain_ascii_brings_a_refused_question_back(
        stem in "[a-zA-Z0-9]{1,8}( [a-zA-Z0-9]{1,8}){0,4}",
        picks in proptest::collection::vec(0_usize..4, 1..40),
        case in 0..3,
    ) {
        let refused = asking(&stem, &LABELS);
        let stem = match case { 0 => stem.to_uppercase(), 1 => stem.to_lowercase(), _ => stem };
        let asked = asking(&disguised_in_ascii(&stem, &picks), &LABELS);
        prop_assert_eq!(judged(&refused, &asked).unwrap_err().code, Code::SameQuestion);
    }

    #[test]
    fn no_disguise_brings_a_refused_question_back(
        stem in "[a-zA-Z0-9]{1,8}( [a-zA-Z0-9]{1,8}){0,4}",
        picks in proptest::collection::vec((0_usize..6, 0_usize..6), 1..40),
        upper: bool,
    ) {
        let refused = asking(&stem, &LABELS);
        let stem = if upper { stem.to_uppercase() } else { stem };
        let labels = LABELS.map(|label| disguised(label, &picks));
        let asked = asking(&disguised(&stem, &picks), &labels.each_ref().map(String::as_str));
        prop_assert_eq!(judged(&refused, &asked).unwrap_err().code, Code::SameQuestion);
    }

    #[test]
    fn a_disguise_folds_to_the_same(
        text in "[a-zA-Z0-9 ]{0,30}",
        picks in proptest::collection::vec((0_usize..6, 0_usize..6), 1..40),
    ) {
        prop_assert_eq!(fold(&disguised(&text, &picks)), fold(&text));
    }
}

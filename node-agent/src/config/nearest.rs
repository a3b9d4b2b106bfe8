//! What somebody meant who wrote a key that does not exist.

use super::clipped;

/// A longer name than any of ours is not compared.
const MOST_COMPARED: usize = 64;

/// Of the message of a parser about a key that it does not know: the same as the other mistakes of a file are told, with
/// the nearest of the keys that may stand there, or all of them. None: it is about something else.
pub(super) fn unknown_key(message: &str) -> Option<String> {
    let (key, known) = message.strip_prefix("unknown field `")?.split_once('`')?;
    // Between backquotes, as the derived parsers list them.
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let hint = match (nearest(key, &known), known.as_slice()) {
        (Some(near), _) => format!("did you mean \"{near}\"?"),
        (None, []) => "nothing may stand here".to_owned(),
        (None, known) => format!("known here: {}", known.join(", ")),
    };
    Some(format!("{} is unknown; {hint}", clipped(key)))
}

fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = |name: &&'k str| (strsim::damerau_levenshtein(key, name), *name);
    let close = |&(distance, _): &(usize, &str)| distance <= 1 + key.len() / 4;
    let compared = known.iter().take_while(|_| key.len() <= MOST_COMPARED);
    compared.map(near).filter(close).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_named_else_all_and_other_messages_are_left_alone() {
        let of = |message: &str| unknown_key(message);
        let near = of("unknown field `slot`, expected one of `name`, `slots`, `labels`").unwrap();
        assert_eq!(near, "slot is unknown; did you mean \"slots\"?");
        let far = of("unknown field `colour`, expected `name` or `slots`").unwrap();
        assert_eq!(far, "colour is unknown; known here: name, slots");
        assert_eq!(
            of("unknown field `a`, there are no fields").unwrap(),
            "a is unknown; nothing may stand here"
        );
        assert_eq!(of("missing field `command`"), None);
        let long = of(&format!("unknown field `{}`, expected `name` or `slots`", "n".repeat(5_000))).unwrap();
        assert!(long.len() < 400 && long.ends_with("known here: name, slots"), "{long}");
    }
}

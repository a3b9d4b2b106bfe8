//! What a job printed, made harmless for a terminal.
//!
//! Text, newlines, tabs and colours (`ESC [ … m`) go through; every other control character is shown as an escape, one that
//! changes the direction of text too, and bytes that are no UTF-8 as U+FFFD. A carriage return before a newline goes
//! through, one alone begins a new line: it could write over what stands there.
//!
//! Invariant: pieces are cut anywhere, and the text is the same as if they had come as one.

use crate::human;

/// A colour is no longer than this; what goes on longer is none.
const LONGEST_COLOUR: usize = 32;

/// Cleans one stream.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// Whether colours go through.
    colours: bool,
    /// A colour went through since the last reset.
    coloured: bool,
    /// The beginning of a character, a colour or a line end whose rest has not come.
    held: Vec<u8>,
}

impl Cleaner {
    pub(super) fn new(colours: bool) -> Self {
        Self { colours, ..Self::default() }
    }

    /// The next piece, as far as it can be told.
    pub(super) fn clean(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let whole = held.len() - unfinished(&held);
        self.held = held.get(whole..).unwrap_or_default().to_vec();
        self.text(held.get(..whole).unwrap_or_default())
    }

    /// What was held back, and the end of its colours.
    pub(super) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let mut text = self.text(&held);
        if std::mem::take(&mut self.coloured) {
            text.push_str("\u{1b}[0m");
        }
        text
    }

    fn text(&mut self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let mut clean = String::with_capacity(text.len());
        let mut rest = text.as_ref();
        while let Some(character) = rest.chars().next() {
            if let Some(colour) = colour(rest) {
                if self.colours {
                    clean.push_str(colour);
                    self.coloured = !matches!(colour, "\u{1b}[m" | "\u{1b}[0m");
                }
                rest = rest.get(colour.len()..).unwrap_or_default();
                continue;
            }
            rest = rest.get(character.len_utf8()..).unwrap_or_default();
            match character {
                '\n' | '\t' => clean.push(character),
                '\r' if rest.starts_with('\n') => clean.push('\r'),
                '\r' => clean.push('\n'),
                other => clean.push_str(&human::clean(other.encode_utf8(&mut [0; 4]))),
            }
        }
        clean
    }
}

/// The colour at the beginning of a text.
fn colour(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let length = parameters.find(|c: char| !matches!(c, '0'..='9' | ';' | ':'))?;
    let is_colour = length <= LONGEST_COLOUR && parameters.get(length..)?.starts_with('m');
    is_colour.then(|| text.get(..length + 3)).flatten()
}

/// How many bytes at the end are the beginning of something.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    let from = bytes.len().saturating_sub(LONGEST_COLOUR + 2);
    let end = bytes.get(from..).unwrap_or_default();
    if let Some(at) = end.iter().rposition(|byte| *byte == 0x1b) {
        let begun = end.get(at + 1..).unwrap_or_default();
        let parameters = begun.strip_prefix(b"[").unwrap_or(begun);
        let is_begun = begun.is_empty()
            || begun.starts_with(b"[")
                && parameters.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
        if is_begun {
            return end.len() - at;
        }
    }
    match std::str::from_utf8(bytes.get(bytes.len().saturating_sub(4)..).unwrap_or_default()) {
        Ok(_) => 0,
        Err(_) => (1..=bytes.len().min(3))
            .find(|&length| {
                let last = bytes.get(bytes.len() - length..).unwrap_or_default();
                // Nothing of it is wrong, and it is not all there.
                matches!(std::str::from_utf8(last), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
            })
            .unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> String {
        let mut cleaner = Cleaner::new(true);
        cleaner.clean(bytes) + &cleaner.finish()
    }

    #[test]
    fn text_line_ends_and_colours_go_through_and_nothing_else_does() {
        assert_eq!(
            whole("ok\tä\r\n\u{1b}[1;31mred\u{1b}[0m\n".as_bytes()),
            "ok\tä\r\n\u{1b}[1;31mred\u{1b}[0m\n"
        );
        for (bytes, shown) in [
            (&b"\x1b[2J\x1b]0;title\x07"[..], "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            (b"10%\r20%\r\n", "10%\n20%\r\n"),
            (b"\xc2\x9b31m \x00 \x7f", "\\u{9b}31m \\u{0} \\u{7f}"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            ("\u{202e}x".as_bytes(), "\\u{202e}x"),
            (b"\x1b[31", "\\u{1b}[31"),
            (b"\x1b[31mred", "\u{1b}[31mred\u{1b}[0m"),
        ] {
            assert_eq!(whole(bytes), shown);
        }
        let mut plain = Cleaner::new(false);
        assert_eq!(plain.clean(b"\x1b[31mred\x1b[0m"), "red");
        assert_eq!(plain.finish(), "");
    }

    #[test]
    fn it_does_not_matter_where_pieces_are_cut() {
        let bytes = "a\r\nä€𐍈\u{1b}[38;5;200mx\u{1b}[2K\u{1b}[0m\r\rend\u{1b}".as_bytes();
        let expected = whole(bytes);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut cleaner = Cleaner::new(true);
                let mut text = cleaner.clean(&bytes[..first]);
                text += &cleaner.clean(&bytes[first..second]);
                text += &cleaner.clean(&bytes[second..]);
                text += &cleaner.finish();
                assert_eq!(text, expected, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn what_never_ends_is_not_held_back_for_ever() {
        let mut cleaner = Cleaner::new(true);
        let endless = [b"\x1b[".as_slice(), &[b'1'; 1000]].concat();
        let text: String = endless.chunks(7).map(|chunk| cleaner.clean(chunk)).collect();
        assert!(text.len() > 900, "{}", text.len());
    }
}

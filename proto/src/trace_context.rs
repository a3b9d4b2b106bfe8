//! W3C Trace Context, level 1: the two texts that carry a trace across a border.
//!
//! Responsible for telling well-formed ones from others, for whoever takes them from a peer or from an environment. Not
//! for spans, nor for what is done with a malformed one: a field is refused, a header is ignored.

use std::fmt;

/// The longest `traceparent`, in bytes. Version 00 has 55; a later one may be longer.
pub const LONGEST_PARENT: usize = 128;

/// The longest `tracestate`, in bytes: what the standard asks everybody to carry at least.
pub const LONGEST_STATE: usize = 512;

/// The most members of a `tracestate`.
const MOST_MEMBERS: usize = 32;

/// A `traceparent`, taken apart. Of a later version only what version 00 has is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent {
    /// Never zero.
    pub trace_id: u128,
    /// Never zero.
    pub span_id: u64,
    /// The lowest bit: whether the trace is recorded.
    pub flags: u8,
}

/// What is wrong with a text; a part of a sentence, without the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl Traceparent {
    /// Takes a `traceparent` apart.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        const SHAPE: Malformed =
            Malformed("is no W3C traceparent: write 00-<32 hex>-<16 hex>-<2 hex>, in lower case");
        if text.len() > LONGEST_PARENT {
            return Err(Malformed("is longer than 128 bytes"));
        }
        let mut parts = text.splitn(5, '-');
        let mut hex = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let lower = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            lower.then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let (Some(version), Some(trace_id), Some(span_id), Some(flags)) = (hex(2), hex(32), hex(16), hex(2))
        else {
            return Err(SHAPE);
        };
        let rest = parts.next();
        if version == 0xff {
            return Err(Malformed("is no W3C traceparent: version ff is forbidden"));
        }
        if (version == 0 && rest.is_some()) || !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Err(SHAPE);
        }
        if trace_id == 0 {
            return Err(Malformed("is no W3C traceparent: its trace id is zero"));
        }
        let (Ok(span_id), Ok(flags)) = (u64::try_from(span_id), u8::try_from(flags)) else {
            return Err(SHAPE);
        };
        if span_id == 0 {
            return Err(Malformed("is no W3C traceparent: its parent id is zero"));
        }
        Ok(Self { trace_id, span_id, flags })
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub fn is_sampled(self) -> bool {
        self.flags & 1 == 1
    }
}

/// As version 00 writes it.
impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

/// Checks a `tracestate`.
///
/// # Errors
/// If it is malformed.
pub fn check_state(text: &str) -> Result<(), Malformed> {
    if text.len() > LONGEST_STATE {
        return Err(Malformed("is longer than 512 bytes"));
    }
    let mut keys = Vec::new();
    // Empty members are allowed, and so is white space around each.
    for member in text.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|m| !m.is_empty()) {
        let (key, value) =
            member.split_once('=').ok_or(Malformed("is no W3C tracestate: a member has no \"=\""))?;
        if !is_key(key) {
            return Err(Malformed("is no W3C tracestate: a key is malformed"));
        }
        if !(1..=256).contains(&value.len()) || !value.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=')
        {
            return Err(Malformed("is no W3C tracestate: a value is malformed"));
        }
        if keys.contains(&key) {
            return Err(Malformed("is no W3C tracestate: a key stands twice"));
        }
        keys.push(key);
    }
    if keys.is_empty() {
        return Err(Malformed("is no W3C tracestate: it has no member"));
    }
    if keys.len() > MOST_MEMBERS {
        return Err(Malformed("is no W3C tracestate: it has more than 32 members"));
    }
    Ok(())
}

/// `vendor`, or `tenant@vendor`, which may begin with a digit.
fn is_key(key: &str) -> bool {
    let tail = |text: &str| {
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(&b))
    };
    let letter = |text: &str| text.starts_with(|c: char| c.is_ascii_lowercase());
    match key.split_once('@') {
        None => letter(key) && key.len() <= 256 && tail(key),
        Some((tenant, vendor)) => {
            let begins = letter(tenant) || tenant.starts_with(|c: char| c.is_ascii_digit());
            begins
                && tenant.len() <= 241
                && tail(tenant)
                && letter(vendor)
                && vendor.len() <= 14
                && tail(vendor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        let parsed = Traceparent::parse(GOOD).unwrap();
        assert!(parsed.is_sampled());
        assert_eq!(parsed.to_string(), GOOD);
        // Of later versions the parts of version 00 are read, whatever follows.
        for later in [GOOD.replacen("00", "01", 1), GOOD.replacen("00", "cc", 1) + "-what-ever"] {
            assert_eq!(Traceparent::parse(&later), Ok(parsed), "{later}");
        }
    }

    #[test]
    fn a_malformed_traceparent_is_none() {
        let long = GOOD.replacen("00", "01", 1) + "-" + &"x".repeat(80);
        for bad in [
            "",
            "00",
            "00-ab-cd-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-+1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-ä",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-\n",
            &long,
        ] {
            assert!(Traceparent::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tracestate_follows_the_grammar() {
        let widest = format!("{}={}", "k".repeat(256), "v".repeat(255));
        for good in
            ["a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "0t@v=x y", "a=1, ,\tb=2", "a/*-_=!", &widest]
        {
            assert_eq!(check_state(good), Ok(()), "{good}");
        }
        let many: Vec<String> = (0..33).map(|n| format!("k{n}=1")).collect();
        let (long_key, long_value) = (format!("{}=1", "k".repeat(257)), format!("a={}", "v".repeat(257)));
        let long = format!("a={},b={}", "v".repeat(255), "v".repeat(255));
        for bad in [
            "",
            ",",
            "a",
            "A=1",
            "0a=1",
            "=1",
            "a=",
            "a=b=c",
            "a=1,a=2",
            "a=\u{7f}",
            "a=ä",
            "a=\n1",
            "a@=1",
            "@v=1",
            "a@0=1",
            "a@b@c=1",
            &long_key,
            &long_value,
            &long,
            &many.join(","),
        ] {
            assert!(check_state(bad).is_err(), "{bad}");
        }
    }
}

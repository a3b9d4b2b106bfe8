//! What may stand in a field, and from that every value worth trying with what becomes of it.

use std::{ops::RangeInclusive, time::Duration};

use prost_reflect::{FieldDescriptor, Value};
use tonic::Code;

use crate::cases::Cases;

/// What is right for a field.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Anything that can be decoded; tried with the values of its type.
    Free,
    /// Not tried with values, only with bytes: another value would make it another request.
    Kept,
    /// A message, or a list or table of them, whose rows stand below. Required or not.
    Inner { required: bool },
    /// A list with so many entries at most, whatever they are.
    Most { most: usize, required: bool },
    /// A name. If it is well formed and nothing is called so: this.
    Name { required: bool, unknown: Option<Said> },
    /// The id of a job. If it is well formed and no job has it: this.
    Id { required: bool, unknown: Option<Said> },
    /// An id made by the caller.
    FreshId,
    /// Any text without NUL.
    Text { most: usize, required: bool },
    /// Any text; what is too long or NUL is mended.
    Mended,
    /// Printable ASCII.
    Ascii { most: usize },
    /// The token of a page.
    PageToken,
    /// A whole number within bounds; a zero that stands for the default is among them.
    Whole(RangeInclusive<i128>),
    /// As the one before; what is outside gets this.
    Numbers(Vec<(i128, Want)>),
    /// A finite number.
    Finite,
    /// One of a few words.
    Choice { unspecified: bool },
    /// A length of time.
    Length(RangeInclusive<Duration>),
    /// A point in time.
    Instant,
    /// So many bytes; more is this.
    Bytes { most: usize, over: Want },
    /// Labels.
    Labels { most: usize },
    /// Units by slot.
    Amounts { most: usize },
    /// Names, of which so many; the same twice is once.
    Names { most: usize },
    /// Values of a label, from one to so many.
    Values { most: usize },
    /// Texts with what becomes of them.
    Texts(Vec<(String, Want)>),
}

/// Code and reason of a no.
pub(crate) type Said = (Code, &'static str);

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Want {
    /// As if the value of the good request stood there.
    Fine,
    /// INVALID_FIELD, of the place with this behind it.
    Field(String),
    /// Another no.
    No(Said),
}

/// One value for a field; none: it is absent.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) what: String,
    pub(crate) value: Option<Value>,
    pub(crate) want: Want,
}

/// The longest length of time that anything may have: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

/// INVALID_FIELD, of the place itself.
pub(crate) fn here() -> Want {
    Want::Field(String::new())
}

impl Rule {
    pub(crate) fn any_length() -> Self {
        Self::Length(Duration::ZERO..=LONGEST)
    }

    pub(crate) fn limit() -> Self {
        Self::Length(Duration::from_millis(1)..=LONGEST)
    }

    /// Every value to try.
    pub(crate) fn cases(&self, field: &FieldDescriptor) -> Vec<Case> {
        let mut cases = Cases { field, all: Vec::new() };
        match self {
            Self::Free => cases.free(),
            Self::Kept => {}
            Self::Inner { required } => cases.absent(if *required { here() } else { Want::Fine }),
            Self::Most { most, required } => cases.most(*most, *required),
            Self::Name { required, unknown } => cases.name(*required, *unknown),
            Self::Id { required, unknown } => cases.id(*required, *unknown),
            Self::FreshId => cases.fresh_id(),
            Self::Text { most, required } => cases.any_text(*most, *required),
            Self::Mended => cases.mended(),
            Self::Ascii { most } => cases.ascii(*most),
            Self::PageToken => cases.page_token(),
            Self::Whole(within) => cases.whole(within),
            Self::Numbers(numbers) => {
                for (number, want) in numbers {
                    cases.number(*number, want.clone());
                }
            }
            Self::Finite => cases.finite(),
            Self::Choice { unspecified } => cases.choice(*unspecified),
            Self::Length(within) => cases.length(within),
            Self::Instant => cases.instant(),
            Self::Bytes { most, over } => cases.bytes(*most, over),
            Self::Labels { most } => cases.labels(*most),
            Self::Amounts { most } => cases.amounts(*most),
            Self::Names { most } => cases.names(*most),
            Self::Values { most } => cases.values(*most),
            Self::Texts(texts) => {
                for (text, want) in texts {
                    cases.text(text, want.clone());
                }
            }
        }
        cases.all
    }
}

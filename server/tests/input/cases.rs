//! The values worth trying for each rule, with what becomes of them.

use std::{collections::HashMap, ops::RangeInclusive, time::Duration};

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value};

use crate::rules::{Case, Said, Want, here};

/// A far too long text still fits into a message.
const FAR_OVER: usize = 2 << 20;
/// Well formed, and nobody's.
const UNKNOWN_ID: &str = "01900000-0000-7000-8000-00000000dead";

/// Texts that people and programs really send, and that are fine where any text is.
const ODD: &[&str] = &[
    "🜁𐍈\u{10ffff}",
    "שלום مرحبا",
    "\u{202e}\u{feff}\u{200b}x",
    "a'); drop table jobs;--",
    "\u{1}\u{7f}\r\n\t",
];

/// Cases of one field so far.
pub(crate) struct Cases<'f> {
    pub(crate) field: &'f FieldDescriptor,
    pub(crate) all: Vec<Case>,
}

impl Cases<'_> {
    fn add(&mut self, what: impl Into<String>, value: Option<Value>, want: Want) {
        self.all.push(Case { what: what.into(), value, want });
    }

    pub(crate) fn absent(&mut self, want: Want) {
        self.add("absent", None, want);
    }

    pub(crate) fn text(&mut self, text: &str, want: Want) {
        let shown: String = text.chars().take(40).collect();
        self.add(format!("{shown:?} of {} bytes", text.len()), Some(Value::String(text.to_owned())), want);
    }

    /// A number, if the field can hold it.
    pub(crate) fn number(&mut self, number: i128, want: Want) {
        let value = match self.field.kind() {
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => number.try_into().ok().map(Value::I32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => number.try_into().ok().map(Value::I64),
            Kind::Uint32 | Kind::Fixed32 => number.try_into().ok().map(Value::U32),
            Kind::Uint64 | Kind::Fixed64 => number.try_into().ok().map(Value::U64),
            Kind::Enum(_) => number.try_into().ok().map(Value::EnumNumber),
            other @ (Kind::Double
            | Kind::Float
            | Kind::Bool
            | Kind::String
            | Kind::Bytes
            | Kind::Message(_)) => {
                panic!("{other:?} is no whole number")
            }
        };
        if value.is_some() {
            self.add(number.to_string(), value, want);
        }
    }

    pub(crate) fn free(&mut self) {
        const EDGES: [i128; 9] = [
            i64::MIN as i128,
            i32::MIN as i128,
            -1,
            0,
            1,
            i32::MAX as i128,
            u32::MAX as i128,
            i64::MAX as i128,
            u64::MAX as i128,
        ];
        let list = self.field.is_list();
        match self.field.kind() {
            Kind::Bool => {
                for value in [false, true] {
                    self.add(value.to_string(), Some(Value::Bool(value)), Want::Fine);
                }
            }
            Kind::String if list => {
                let texts = |text: &str, count| Value::List(vec![Value::String(text.to_owned()); count]);
                self.add("many", Some(texts("x", 100_000)), Want::Fine);
                self.add("NUL", Some(texts("\0", 2)), Want::Fine);
                self.add("far over", Some(texts(&"x".repeat(FAR_OVER), 1)), Want::Fine);
            }
            Kind::Double | Kind::Float | Kind::String | Kind::Bytes | Kind::Message(_) => {
                panic!("{} needs a rule of its own", self.field.full_name())
            }
            Kind::Int32
            | Kind::Int64
            | Kind::Uint32
            | Kind::Uint64
            | Kind::Sint32
            | Kind::Sint64
            | Kind::Fixed32
            | Kind::Fixed64
            | Kind::Sfixed32
            | Kind::Sfixed64
            | Kind::Enum(_) => {
                for number in EDGES {
                    self.number(number, Want::Fine);
                }
            }
        }
    }

    pub(crate) fn most(&mut self, most: usize, required: bool) {
        self.absent(if required { here() } else { Want::Fine });
        let Kind::Message(inner) = self.field.kind() else { panic!("{} is no list", self.field.full_name()) };
        for count in [most + 1, most + 1000] {
            let entries = vec![Value::Message(DynamicMessage::new(inner.clone())); count];
            self.add(format!("{count} entries"), Some(Value::List(entries)), here());
        }
    }

    pub(crate) fn name(&mut self, required: bool, unknown: Option<Said>) {
        self.absent(if required { here() } else { Want::Fine });
        for bad in
            ["A", " a", "a b", "a/b", "a\0", "ä", "a\n", "*", "%00", &"x".repeat(64), &"x".repeat(FAR_OVER)]
        {
            self.text(bad, here());
        }
        for odd in ODD {
            self.text(odd, here());
        }
        for well_formed in ["zz.no_such-9", "..", &"x".repeat(63)] {
            self.text(well_formed, unknown.map_or(Want::Fine, Want::No));
        }
    }

    fn no_ids(&mut self) {
        let hyphens = "-".repeat(36);
        let eights = "8".repeat(36);
        for bad in [
            "x",
            "{}",
            "01900000000070008000000000000001",
            "{01900000-0000-7000-8000-000000000001}",
            "urn:uuid:01900000-0000-7000-8000-000000000001",
            "01900000-0000-7000-8000-00000000000g",
            "01900000-0000-7000-8000-00000000000\0",
            " 01900000-0000-7000-8000-000000000001",
            &hyphens,
            &eights,
            &"0".repeat(FAR_OVER),
        ] {
            self.text(bad, here());
        }
        for odd in ODD {
            self.text(odd, here());
        }
    }

    pub(crate) fn id(&mut self, required: bool, unknown: Option<Said>) {
        self.absent(if required { here() } else { Want::Fine });
        self.no_ids();
        let want = unknown.map_or(Want::Fine, Want::No);
        self.text(UNKNOWN_ID, want.clone());
        self.text("00000000-0000-0000-0000-000000000000", want.clone());
        self.text("ffffffff-ffff-ffff-ffff-ffffffffffff", want);
    }

    pub(crate) fn fresh_id(&mut self) {
        self.absent(Want::Fine);
        self.no_ids();
        for other in ["00000000-0000-0000-0000-000000000000", "01900000-0000-4000-8000-000000000001"] {
            self.text(other, here());
        }
        self.text("01900000-0000-7000-c000-000000000001", here());
        self.text(&uuid::Uuid::now_v7().to_string(), Want::Fine);
    }

    pub(crate) fn any_text(&mut self, most: usize, required: bool) {
        self.absent(if required { here() } else { Want::Fine });
        for odd in ODD.iter().filter(|odd| odd.len() <= most) {
            self.text(odd, Want::Fine);
        }
        self.text(&"x".repeat(most), Want::Fine);
        self.text(&format!("{}🜁", "x".repeat(most - 4)), Want::Fine);
        for bad in [
            "\0",
            "a\0b",
            &"x".repeat(most + 1),
            &format!("{}🜁", "x".repeat(most - 3)),
            &"x".repeat(FAR_OVER),
            &"\0".repeat(FAR_OVER),
        ] {
            self.text(bad, here());
        }
    }

    pub(crate) fn mended(&mut self) {
        self.absent(Want::Fine);
        for odd in ODD.iter().copied().chain(["\0", &"🜁".repeat(2000), &"\0".repeat(1 << 20)]) {
            self.text(odd, Want::Fine);
        }
    }

    pub(crate) fn ascii(&mut self, most: usize) {
        self.absent(Want::Fine);
        self.text(&"x".repeat(most), Want::Fine);
        for bad in ["\0", "\r\nx: y", "\u{7f}", "ä", &"x".repeat(most + 1), &"x".repeat(FAR_OVER)] {
            self.text(bad, here());
        }
        for odd in ODD.iter().filter(|odd| !odd.is_ascii()) {
            self.text(odd, here());
        }
    }

    pub(crate) fn page_token(&mut self) {
        self.absent(Want::Fine);
        let forged = format!("01{}{}", "00".repeat(8), "7f".repeat(24));
        for bad in ["x", "00", "é", "\0", &forged, &"f".repeat(50), &"0".repeat(FAR_OVER)] {
            self.text(bad, here());
        }
        for odd in ODD {
            self.text(odd, here());
        }
    }

    pub(crate) fn whole(&mut self, within: &RangeInclusive<i128>) {
        let (low, high) = (*within.start(), *within.end());
        let edges =
            [i64::MIN.into(), i32::MIN.into(), -1, 0, i32::MAX.into(), u32::MAX.into(), u64::MAX.into()];
        let mut numbers = vec![low - 1, low, high, high + 1];
        numbers.extend(edges.iter().filter(|edge| !numbers.contains(edge)).copied().collect::<Vec<_>>());
        for number in numbers {
            self.number(number, if within.contains(&number) { Want::Fine } else { here() });
        }
    }

    pub(crate) fn finite(&mut self) {
        for number in [0.0, -0.0, f64::MIN, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            self.add(format!("{number:e}"), Some(Value::F64(number)), Want::Fine);
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            self.add(format!("{number}"), Some(Value::F64(number)), here());
        }
    }

    pub(crate) fn choice(&mut self, unspecified: bool) {
        let Kind::Enum(kind) = self.field.kind() else { panic!("{} is no enum", self.field.full_name()) };
        let known: Vec<i32> = kind.values().map(|value| value.number()).collect();
        let mut all: Vec<(i32, Want)> = known
            .iter()
            .map(|&number| (number, if number != 0 || unspecified { Want::Fine } else { here() }))
            .collect();
        let unknown = [2, 4, 5, 77, -1, i32::MIN, i32::MAX];
        all.extend(unknown.iter().filter(|n| !known.contains(n)).map(|&number| (number, here())));
        if !self.field.is_list() {
            return for (number, want) in all {
                self.number(number.into(), want);
            };
        }
        let numbers = |number, count| Value::List(vec![Value::EnumNumber(number); count]);
        self.absent(Want::Fine);
        for (number, want) in all {
            let want = if want == here() { Want::Field("[0]".to_owned()) } else { want };
            self.add(format!("[{number}]"), Some(numbers(number, 1)), want);
        }
        let good = known.last().copied().unwrap_or_default();
        self.add("one of them twice", Some(numbers(good, 2)), Want::Fine);
        self.add("far too many", Some(numbers(good, 100_000)), here());
        self.add("far too many unknown ones", Some(numbers(77, 1_000_000)), here());
    }

    fn time(&mut self, what: &str, seconds: i64, nanos: i32, want: Want) {
        let Kind::Message(kind) = self.field.kind() else { panic!("{} is no time", self.field.full_name()) };
        let mut time = DynamicMessage::new(kind);
        time.set_field_by_name("seconds", Value::I64(seconds));
        time.set_field_by_name("nanos", Value::I32(nanos));
        self.add(format!("{what}: {seconds} s {nanos} ns"), Some(Value::Message(time)), want);
    }

    pub(crate) fn length(&mut self, within: &RangeInclusive<Duration>) {
        self.absent(Want::Fine);
        let parts = |length: Duration| {
            (
                i64::try_from(length.as_secs()).expect("years"),
                i32::try_from(length.subsec_nanos()).expect("< 1e9"),
            )
        };
        let (low, high) = (*within.start(), *within.end());
        for (what, length) in
            [("least", low), ("most", high), ("not whole µs", low + Duration::from_nanos(1_001))]
        {
            let (seconds, nanos) = parts(length);
            self.time(what, seconds, nanos, Want::Fine);
        }
        if let Some(below) = low.checked_sub(Duration::from_nanos(1)) {
            let (seconds, nanos) = parts(below);
            self.time("too short", seconds, nanos, here());
            self.time("zero", 0, 0, here());
        }
        let (seconds, nanos) = parts(high + Duration::from_micros(1));
        self.time("too long", seconds, nanos, here());
        for (seconds, nanos) in [
            (-1, 0),
            (0, -1),
            (1, -1),
            (-1, 1),
            (0, 1_000_000_000),
            (0, i32::MAX),
            (0, i32::MIN),
            (i64::MAX, 0),
            (i64::MIN, 0),
            (i64::MAX, 999_999_999),
            (i64::MIN, -999_999_999),
        ] {
            self.time("no such length", seconds, nanos, here());
        }
    }

    pub(crate) fn instant(&mut self) {
        self.absent(Want::Fine);
        for (seconds, nanos) in [
            (0, 0),
            (-1, 0),
            (-62_135_596_800, 0),
            (253_402_300_799, 999_999_999),
            (1_700_000_000, 1),
            (1_700_000_000, 999_999_999),
        ] {
            self.time("fine", seconds, nanos, Want::Fine);
        }
        for (seconds, nanos) in [
            (-62_135_596_801, 999_999_999),
            (253_402_300_800, 0),
            (0, -1),
            (0, 1_000_000_000),
            (0, i32::MIN),
            (i64::MAX, 0),
            (i64::MIN, i32::MAX),
        ] {
            self.time("no such time", seconds, nanos, here());
        }
    }

    pub(crate) fn bytes(&mut self, most: usize, over: &Want) {
        self.absent(Want::Fine);
        for (size, want) in
            [(1, Want::Fine), (most, Want::Fine), (most + 1, over.clone()), (3 << 20, over.clone())]
        {
            self.add(format!("{size} bytes"), Some(Value::Bytes(vec![0xff; size].into())), want);
        }
    }

    fn map(&mut self, what: &str, entries: impl IntoIterator<Item = (String, Value)>, want: Want) {
        let entries = entries.into_iter().map(|(key, value)| (MapKey::String(key), value));
        self.add(what, Some(Value::Map(entries.collect::<HashMap<_, _>>())), want);
    }

    pub(crate) fn labels(&mut self, most: usize) {
        let label = |key: &str, value: &str| [(key.to_owned(), Value::String(value.to_owned()))];
        let many = |count: usize| (0..count).map(|n| (format!("label{n}"), Value::String(String::new())));
        self.absent(Want::Fine);
        self.map("most", many(most), Want::Fine);
        self.map("one too many", many(most + 1), here());
        self.map("far too many", many(100_000), here());
        self.map("longest key", label(&"k".repeat(63), "v"), Want::Fine);
        self.map("longest value", label("k", &"v".repeat(255)), Want::Fine);
        for key in ["", "a b", "k\0", "ä", &"k".repeat(64), &"k".repeat(FAR_OVER)]
            .into_iter()
            .chain(ODD.iter().copied())
        {
            self.map(&format!("key {:.20?}", key), label(key, "v"), entry(key));
        }
        for value in ["\0", "\u{1b}[31m", "a\nb", &"v".repeat(256), &"v".repeat(FAR_OVER)] {
            self.map(&format!("value {value:.20?}"), label("k", value), entry("k"));
        }
        for value in ODD.iter().filter(|odd| !odd.chars().any(char::is_control)) {
            self.map(&format!("value {value:?}"), label("k", value), Want::Fine);
        }
    }

    pub(crate) fn values(&mut self, most: usize) {
        let list = |values: &[&str]| {
            Some(Value::List(values.iter().map(|value| Value::String((*value).to_owned())).collect()))
        };
        self.absent(here());
        self.add("one twice", list(&["a100", "a100"]), Want::Fine);
        self.add("an empty one", list(&[""]), Want::Fine);
        self.add("the longest", list(&[&"v".repeat(255)]), Want::Fine);
        self.add("most", list(&vec!["x"; most]), Want::Fine);
        self.add("one too many", list(&vec!["x"; most + 1]), here());
        self.add("far too many", list(&vec!["x"; 100_000]), here());
        for value in ["\0", "\u{1b}[31m", "a\nb", &"v".repeat(256), &"v".repeat(FAR_OVER)] {
            self.add(format!("value {value:.20?}"), list(&["fine", value]), Want::Field("[1]".to_owned()));
        }
        for value in ODD.iter().filter(|odd| !odd.chars().any(char::is_control)) {
            self.add(format!("value {value:?}"), list(&[value]), Want::Fine);
        }
    }

    pub(crate) fn amounts(&mut self, most: usize) {
        let many = |count: usize| (0..count).map(|n| (format!("slot{n}"), Value::U32(1)));
        let amount = |key: &str, units| [(key.to_owned(), Value::U32(units))];
        self.absent(Want::Fine);
        self.map("most", many(most), Want::Fine);
        self.map("one too many", many(most + 1), here());
        self.map("far too many", many(100_000), here());
        for (units, want) in [
            (0, Want::Fine),
            (1_000_000, Want::Fine),
            (1_000_001, entry("browser")),
            (u32::MAX, entry("browser")),
        ] {
            self.map(&format!("{units} units"), amount("browser", units), want);
        }
        for key in ["", "A", "a b", "k\0", &"k".repeat(64), &"k".repeat(FAR_OVER)]
            .into_iter()
            .chain(ODD.iter().copied())
        {
            self.map(&format!("slot {key:.20?}"), amount(key, 1), entry(key));
        }
    }

    pub(crate) fn names(&mut self, most: usize) {
        let names = |name: &str, count| Value::List(vec![Value::String(name.to_owned()); count]);
        let many =
            |count: usize| Value::List((0..count).map(|n| Value::String(format!("kind{n}"))).collect());
        self.absent(Want::Fine);
        self.add("most", Some(many(most)), Want::Fine);
        self.add("one too many", Some(many(most + 1)), here());
        self.add("far too many", Some(many(100_000)), here());
        self.add("one twice", Some(names("web", 2)), Want::Fine);
        for bad in
            ["", "A", "a\0", &"k".repeat(64), &"k".repeat(FAR_OVER)].into_iter().chain(ODD.iter().copied())
        {
            self.add(format!("{bad:.20?}"), Some(names(bad, 1)), Want::Field("[0]".to_owned()));
        }
    }
}

/// An entry of a table, as a refusal names it: escaped and cut.
fn entry(key: &str) -> Want {
    let shown: String = key.chars().take(63).collect();
    Want::Field(format!("[{shown:?}]"))
}

//! What goes to stdout: tables for people, JSON for programs.
//!
//! Invariant: stdout carries data only; notes, questions and errors go to stderr. Nothing is coloured or animated off a
//! terminal, or under `NO_COLOR`. Text that is no JSON, YAML or result passes [`human::clean`] here, whoever wrote it.

use std::io::{self, IsTerminal, Write};
use std::time::SystemTime;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, TableStyle};
use serde::Serialize;
use tenure_client::wire;

use crate::args::{Format, Global};
use crate::context::Colour;
use crate::exit::Failure;
use crate::json::{self, Canonical};
use crate::{clock, human, yaml};

/// Where and how results are shown.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    format: Format,
    absolute: bool,
    /// Stdout is a terminal that takes colours.
    colour: bool,
    /// Stdout is a terminal: tables wrap to its width.
    terminal: bool,
    /// What ages are counted from: one instant for the whole output.
    now: SystemTime,
}

/// Rows under headers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<Field>>,
}

/// One field of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    text: String,
    tone: Tone,
    /// Aligned to the right.
    figure: bool,
}

/// What a field says at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing in particular.
    Plain,
    /// As it should be.
    Good,
    /// Worth a look.
    Notice,
    /// Somebody should act.
    Bad,
}

impl Field {
    /// A text in a tone. Control characters are escaped.
    pub(crate) fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: human::clean(text.as_ref()), tone, figure: false }
    }

    /// A number.
    pub(crate) fn figure(number: impl ToString) -> Self {
        Self::toned_figure(number, Tone::Plain)
    }

    /// A number in a tone.
    pub(crate) fn toned_figure(number: impl ToString, tone: Tone) -> Self {
        Self { text: number.to_string(), tone, figure: true }
    }
}

impl<T: AsRef<str>> From<T> for Field {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(headers: impl IntoIterator<Item = &'static str>) -> Self {
        Self { headers: headers.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, fields: impl IntoIterator<Item = Field>) {
        self.rows.push(fields.into_iter().collect());
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn render(&self, colour: bool, wrap: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(TableStyle::new());
        if colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_content_arrangement(if wrap {
            ContentArrangement::Dynamic
        } else {
            ContentArrangement::Disabled
        });
        if !self.headers.is_empty() {
            table.set_header(
                self.headers.iter().map(|header| Cell::new(header).add_attribute(Attribute::Bold)),
            );
        }
        table.add_rows(self.rows.iter().map(|row| row.iter().map(cell)));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n")
    }
}

fn cell(field: &Field) -> Cell {
    let cell = Cell::new(&field.text);
    let cell = if field.figure { cell.set_alignment(CellAlignment::Right) } else { cell };
    match field.tone {
        Tone::Plain => cell,
        Tone::Good => cell.fg(Color::Green),
        Tone::Notice => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
    }
}

impl Output {
    /// As the flags, the environment and the terminal say.
    pub(crate) fn new(global: &Global) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            format: if global.json { Format::Json } else { global.output },
            absolute: global.absolute,
            colour: terminal && colour_is_welcome(),
            terminal,
            now: clock::wall(),
        }
    }

    /// Whether a program reads whole values: JSON or YAML.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self.format, Format::Json | Format::Yaml)
    }

    /// Whether names alone are wanted.
    pub(crate) fn is_name(&self) -> bool {
        self.format == Format::Name
    }

    /// What tables have more under `-o wide`.
    pub(crate) fn wide<T, const N: usize>(&self, more: impl FnOnce() -> [T; N]) -> Vec<T> {
        if self.format == Format::Wide { more().into() } else { Vec::new() }
    }

    /// Prints an answer in the form that was asked for: the message, names alone, or what a person reads.
    pub(crate) fn show<'n, M: Canonical>(
        &self,
        message: &M,
        names: impl IntoIterator<Item = &'n str>,
        person: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.is_data() {
            return self.message(message);
        }
        if self.is_name() {
            return names.into_iter().try_for_each(|name| self.line(name));
        }
        person()
    }

    /// Tells what a verb did to something: the answer, its name, or a sentence on stderr.
    pub(crate) fn did<M: Canonical>(&self, message: &M, name: &str, sentence: String) -> Result<(), Failure> {
        self.show(message, [name], || {
            note(sentence);
            Ok(())
        })
    }

    /// Whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints a message as its canonical JSON, or as the same in YAML.
    pub(crate) fn message<M: Canonical>(&self, message: &M) -> Result<(), Failure> {
        self.value(&json::canonical(message)?)
    }

    /// Prints one message of several that come one after the other: JSON on one line, or a document of YAML.
    pub(crate) fn message_line<M: Canonical>(&self, message: &M) -> Result<(), Failure> {
        if self.format == Format::Yaml {
            return self.message(message);
        }
        self.raw(&json::line(&json::canonical(message)?)?)
    }

    /// Prints a value that is no message of the wire.
    pub(crate) fn value(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.raw(&if self.format == Format::Yaml { yaml::document(value)? } else { json::text(value)? })
    }

    /// Prints a table.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        self.raw(&table.render(self.colour, self.terminal))
    }

    /// Prints text, line by line without control characters.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        self.raw(&human::clean_lines(text))
    }

    fn raw(&self, text: &str) -> Result<(), Failure> {
        writeln!(io::stdout(), "{text}").map_err(Failure::Output)
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::Output)
    }

    /// The age of an instant, or the instant itself under `--absolute`; `-` if it is absent.
    pub(crate) fn age(&self, at: Option<&prost_types::Timestamp>) -> String {
        self.instant(at, human::age)
    }

    /// Since when something holds: `for 3m12s`, or `since` the instant itself under `--absolute`.
    pub(crate) fn since(&self, at: Option<&prost_types::Timestamp>) -> String {
        format!("{} {}", if self.absolute { "since" } else { "for" }, self.age(at))
    }

    /// An instant that may lie ahead; `-` if it is absent.
    pub(crate) fn when(&self, at: Option<&prost_types::Timestamp>) -> String {
        self.instant(at, human::relative)
    }

    fn instant(
        &self,
        at: Option<&prost_types::Timestamp>,
        show: fn(SystemTime, SystemTime) -> String,
    ) -> String {
        let Some(at) = at.map(wire::system_time) else { return "-".to_owned() };
        if self.absolute { human::absolute(at) } else { show(self.now, at) }
    }
}

/// Tells the person something that is not data.
pub(crate) fn note(text: impl AsRef<str>) {
    // A closed stderr leaves nobody to tell.
    writeln!(io::stderr(), "{}", human::clean_lines(text.as_ref())).unwrap_or_default();
}

/// Tells the person where a write goes, in the colour of its context.
pub(crate) fn paint(colour: Colour, text: &str) {
    writeln!(io::stderr(), "{}", colour.paint(&human::clean(text))).unwrap_or_default();
}

/// <https://no-color.org>: any value but an empty one.
pub(crate) fn colour_is_welcome() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(["KIND", "DEPTH", "STATE"]);
        table.row(["site.qa".into(), Field::figure(3), Field::toned("stuck", Tone::Bad)]);
        table.row(["digest.daily".into(), Field::figure(300), Field::toned("mov\u{1b}ing", Tone::Good)]);
        table
    }

    #[test]
    fn a_table_has_no_frames_and_no_trailing_blanks() {
        expect_test::expect![[r"
            KIND          DEPTH  STATE
            site.qa           3  stuck
            digest.daily    300  mov\u{1b}ing"]]
        .assert_eq(&sample().render(false, false));
    }

    #[test]
    fn colours_are_there_only_if_asked_for() {
        assert!(sample().render(true, false).contains("\u{1b}["));
        assert!(!sample().render(false, false).contains('\u{1b}'));
    }
}

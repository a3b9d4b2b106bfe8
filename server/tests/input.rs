//! Bad input of every kind, against a real server on each database: every field of every request and of the session.
//!
//! What is swept is read from the descriptor set, so that a new field is in the sweep by itself; `table.rs` says what is
//! right for it, and a field without a row there fails the test. What is refused has the right code and reason and
//! names its field, nothing of it is stored, nobody else notices, and the server has nothing to say of it in its log.

#[path = "input/bases.rs"]
mod bases;
#[path = "input/cases.rs"]
mod cases;
#[path = "input/desk.rs"]
mod desk;
#[path = "input/files.rs"]
mod files;
#[path = "input/fuzz.rs"]
mod fuzz;
#[path = "input/items.rs"]
mod items;
#[path = "input/places.rs"]
mod places;
#[path = "input/rules.rs"]
mod rules;
#[path = "input/sessions.rs"]
mod sessions;
#[path = "input/sweep.rs"]
mod sweep;
#[path = "input/table.rs"]
mod table;
#[path = "input/wire.rs"]
mod wire;

//! Both databases have the same tables, columns, named constraints, indexes, triggers and views.

use std::collections::BTreeSet;

use sqlx::Row;

use super::{
    super::schema::{self, MIGRATIONS},
    Store, sql,
};
use crate::sqlite::schema::MIGRATIONS as OTHERS;

/// A boolean cannot be anything but a flag: Postgres needs no check.
const FLAGS: &str = "_flags_are_flags";

async fn names(store: &Store, query: &str) -> BTreeSet<String> {
    let mut hand = store.hand().await;
    let rows = sqlx::query(sql(query.to_owned())).fetch_all(&mut hand).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// What follows one of these openings in the text of the migrations for SQLite.
fn declared(openings: &[&str]) -> BTreeSet<String> {
    let lines = OTHERS.iter().flat_map(|(_, _, text)| text.lines()).map(str::trim);
    let found = lines.filter_map(|line| openings.iter().find_map(|opening| line.strip_prefix(opening)));
    found.filter_map(|rest| rest.split([' ', '(']).next()).map(str::to_owned).collect()
}

#[test]
fn migrations_have_the_same_numbers_and_names() {
    let about = |all: &[(u32, &'static str, &str)]| -> Vec<(u32, &str)> {
        all.iter().map(|&(number, name, _)| (number, name)).collect()
    };
    assert_eq!(about(&MIGRATIONS), about(&OTHERS));
}

/// The beginning of the checksum that is stored with an applied migration, of Postgres and of SQLite. Append only.
const HANDED_OUT: [(u32, &str, &str); 23] = [
    (1, "49fdba08c0679199", "cfbbc8bdee2c07d6"),
    (2, "45b4ff949c5a9431", "839270f9d17ae320"),
    (3, "5e52b888b9d0a71c", "daa58d6896e01d25"),
    (4, "fea7041a6bbe7fdf", "c86e27eb1cee7748"),
    (5, "39c52b23a3ab077d", "c6128764f9601ae5"),
    (6, "9bfd13398fdee041", "2b541286e3de1ca9"),
    (7, "8e7ef4bb84a67e0d", "f8e2ab5c7523ad9f"),
    (8, "8143c80452f42483", "e52fc961fc62f3c1"),
    (9, "06b53bf8ccdc1c0e", "28df8be439d3f598"),
    (10, "b5da171eac79707b", "329d2575e2f9c015"),
    (11, "463772c1ebd80f13", "ececddba11ea6f60"),
    (12, "0901624ea5151ed4", "560d216483e84163"),
    (13, "367781c0c4055f2a", "5588df71604c8c73"),
    (14, "a2c73a6bc80a0afc", "d477c5e24ef894d8"),
    (15, "65fccfb2fbbfe740", "ed6d0d5d83bf8958"),
    (16, "418d8603c6b96bd1", "e7acab8e356af612"),
    (17, "04a36de04ddab387", "6639b3a41fab40c9"),
    (18, "762ebc7e3430ca91", "d52a6c551a8f5ff8"),
    (19, "e273280c65c4d562", "3adf0535a248ea35"),
    (20, "7dc16593a29ddc27", "e728969833f0cef8"),
    (21, "35f99c645985cb57", "9f7f4c2e9c287275"),
    (22, "b32318caee1616de", "d403120dc0b1a41c"),
    (23, "8522a7a2eefa5247", "6c21d3f1b54c4bac"),
];

#[test]
fn a_migration_that_was_handed_out_never_changes() {
    let sums = |migrator: sqlx::migrate::Migrator| -> Vec<String> {
        let sum = |migration: &sqlx::migrate::Migration| {
            migration.checksum.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
        };
        migrator.iter().map(sum).collect()
    };
    let ours = sums(schema::migrator(&MIGRATIONS));
    let theirs = sums(crate::sqlite::schema::migrator(&OTHERS));
    let found: Vec<(u32, &str, &str)> = MIGRATIONS
        .iter()
        .zip(ours.iter().zip(&theirs))
        .map(|(&(number, ..), (ours, theirs))| (number, ours.as_str(), theirs.as_str()))
        .collect();
    assert_eq!(
        found, HANDED_OUT,
        "undo the change and write another migration; of a new one append its line"
    );
}

#[tokio::test]
async fn what_has_a_name_has_it_in_both_databases() {
    let store = Store::new().await;
    let ours = "relnamespace = 'public'::regnamespace and relname <> '_sqlx_migrations'";
    let class =
        |kind: &str| format!("select relname::text from pg_class where relkind = '{kind}' and {ours}");
    assert_eq!(names(&store, &class("r")).await, declared(&["create table "]), "tables");
    assert_eq!(names(&store, &class("v")).await, declared(&["create view "]), "views");
    let constraints = "
select conname::text from pg_constraint
where connamespace = 'public'::regnamespace and contype <> 't' and conrelid <> '_sqlx_migrations'::regclass";
    let mut others = declared(&["constraint "]);
    others.retain(|name| !name.ends_with(FLAGS));
    assert_eq!(names(&store, constraints).await, others, "constraints");
    let indexes = "
select indexrelid::regclass::text from pg_index
where indrelid <> '_sqlx_migrations'::regclass and indrelid::regclass::text !~ '^pg_'
  and not exists (select 1 from pg_constraint where conindid = indexrelid)";
    assert_eq!(names(&store, indexes).await, declared(&["create index ", "create unique index "]), "indexes");
    let triggers = "select tgname::text from pg_trigger where not tgisinternal";
    assert_eq!(names(&store, triggers).await, declared(&["create trigger "]), "triggers");
}

#[tokio::test]
async fn tables_have_the_same_columns_in_the_same_order_and_all_have_comments() {
    let store = Store::new().await;
    let mut others = BTreeSet::new();
    let mut table = "";
    for line in OTHERS.iter().flat_map(|(_, _, text)| text.lines()) {
        if let Some(name) = line.strip_prefix("create table ").and_then(|rest| rest.split(' ').next()) {
            (table, _) = (name, others.insert(format!("{name} 0")));
            continue;
        }
        if let Some(name) =
            line.strip_prefix("alter table ").and_then(|rest| rest.strip_suffix(" add column"))
        {
            table = name;
            continue;
        }
        let words: Vec<&str> = line.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
        if line.starts_with("  ")
            && line.contains(" -- ")
            && matches!(words[..], [_, "text" | "integer" | "blob", ..])
        {
            let place = others.iter().filter(|known| known.starts_with(&format!("{table} "))).count();
            others.insert(format!("{table} {place} {} {}", words[0], !line.contains("not null")));
        }
    }
    others.retain(|known| known.split(' ').count() > 2);
    let columns = "
select format('%s %s %s %s', relname, attnum, attname, case when attnotnull then 'false' else 'true' end)
from pg_attribute
join pg_class on pg_class.oid = attrelid
where relkind = 'r' and attnum > 0 and relnamespace = 'public'::regnamespace and relname <> '_sqlx_migrations'";
    assert_eq!(names(&store, columns).await, others);
    let silent = "
select format('%s.%s', relname, attname)
from pg_attribute
join pg_class on pg_class.oid = attrelid
where relkind in ('r', 'v') and relnamespace = 'public'::regnamespace and relname <> '_sqlx_migrations'
  and (relkind = 'r' and attnum > 0 and col_description(attrelid, attnum) is null
    or obj_description(attrelid, 'pg_class') is null)";
    assert_eq!(names(&store, silent).await, BTreeSet::new(), "without a comment");
}

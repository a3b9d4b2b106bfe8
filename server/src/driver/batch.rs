//! What was collected and not applied yet.
//!
//! Responsible for the bounds of a turn: 1,000 commands and 8 MiB of bytes beside them, with some room that nodes
//! cannot take, so that a flood of reports leaves producers a way in. What does not fit stays in its inbox.

use std::{collections::VecDeque, time::Duration};

use tenure_scheduler::{Command, Hello, SessionId};

use crate::{
    handle::{Call, SubmitError},
    sessions::FromNode,
};

/// Commands of one turn.
const MOST_COMMANDS: usize = 1000;

/// Of those, kept for producers.
const FOR_PRODUCERS: usize = 100;

/// Bytes that travel beside the commands of one turn. The last item may pass it, by 256 KiB at the most, or by the 4 MiB of a workflow.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// One command and where it came from.
#[derive(Debug)]
pub(super) enum Item {
    /// Of a producer, an operator or the sweeper.
    Call(Call),
    /// Of a node.
    Node(FromNode),
    /// Of the driver itself.
    Own(Command),
}

/// Items in the order in which they will be applied.
#[derive(Debug, Default)]
pub(super) struct Batch {
    items: VecDeque<Item>,
    bytes: usize,
}

impl Item {
    pub(super) fn command(&self) -> &Command {
        match self {
            Self::Call(call) => &call.submission.command,
            Self::Node(from) => &from.command,
            Self::Own(command) => command,
        }
    }

    pub(super) fn command_mut(&mut self) -> &mut Command {
        match self {
            Self::Call(call) => &mut call.submission.command,
            Self::Node(from) => &mut from.command,
            Self::Own(command) => command,
        }
    }

    /// Whether it was made of a row of the inbox.
    pub(super) fn is_row(&self) -> bool {
        matches!(self, Self::Call(Call { row: Some(_), .. }))
    }

    /// Tells a caller that its command was not applied.
    pub(super) fn answer(self, error: SubmitError) {
        if let Self::Call(call) = self {
            drop(call.answer.send(Err(error))); // who went away wants no answer
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Call(call) => call.submission.bytes(),
            Self::Node(from) => from.carried.len(),
            Self::Own(_) => 0,
        }
    }
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether one more item of a node fits into the turn.
    pub(super) fn has_room_for_nodes(&self) -> bool {
        self.items.len() < MOST_COMMANDS - FOR_PRODUCERS && self.bytes < MOST_BYTES
    }

    /// Whether one more item of a producer fits into the turn.
    pub(super) fn has_room_for_calls(&self) -> bool {
        self.items.len() < MOST_COMMANDS && self.bytes < MOST_BYTES
    }

    pub(super) fn push(&mut self, item: Item) {
        self.bytes += item.bytes();
        self.items.push_back(item);
    }

    /// Puts a command of the driver itself before everything that was collected.
    pub(super) fn push_first(&mut self, command: Command) {
        self.items.push_front(Item::Own(command));
    }

    /// Whether the first thing to do is to set something aside.
    pub(super) fn begins_by_setting_aside(&self) -> bool {
        let first = self.items.front();
        matches!(first, Some(Item::Own(Command::SetAside { .. } | Command::SetAsideCron { .. })))
    }

    /// Whether a plan of a cron entry waits: the next ones come after it.
    pub(super) fn has_plans(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Own(Command::PlanCron(_))))
    }

    /// Whether words of nodes are among the items.
    pub(super) fn has_nodes(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Node(_)))
    }

    /// Takes the whole turn, or only its first item.
    pub(super) fn take(&mut self, one: bool) -> Vec<Item> {
        if !one {
            self.bytes = 0;
            return std::mem::take(&mut self.items).into();
        }
        let first = self.items.pop_front();
        self.bytes -= first.as_ref().map_or(0, Item::bytes);
        first.into_iter().collect()
    }

    /// Puts items back that were taken and not applied.
    pub(super) fn put_back(&mut self, items: Vec<Item>) {
        for item in items.into_iter().rev() {
            self.bytes += item.bytes();
            self.items.push_front(item);
        }
    }

    /// The Hellos among the items.
    pub(super) fn hellos(&self) -> impl Iterator<Item = &Hello> {
        self.items.iter().filter_map(|item| match item {
            Item::Node(FromNode { command: Command::Hello(hello), .. }) => Some(&**hello),
            Item::Call(_) | Item::Node(_) | Item::Own(_) => None,
        })
    }

    /// Takes out the Hello of a session, and what it said after it.
    pub(super) fn take_session(&mut self, session: SessionId) -> Vec<FromNode> {
        let mut taken = Vec::new();
        let mut kept = VecDeque::with_capacity(self.items.len());
        for item in std::mem::take(&mut self.items) {
            match item {
                Item::Node(from) if from.session == session => taken.push(from),
                Item::Call(_) | Item::Node(_) | Item::Own(_) => kept.push_back(item),
            }
        }
        self.replace(kept);
        taken
    }

    /// Answers calls that came at `limit` on the steady clock or before, and forgets them: they were not applied.
    pub(super) fn answer_older_than(&mut self, limit: Duration) {
        let is_old = |item: &Item| matches!(item, Item::Call(call) if call.received <= limit);
        if !self.items.iter().any(is_old) {
            return;
        }
        let (old, kept) = std::mem::take(&mut self.items).into_iter().partition::<VecDeque<_>, _>(is_old);
        for item in old {
            item.answer(SubmitError::away());
        }
        self.replace(kept);
    }

    /// Takes out what nodes said: the state that they spoke to is gone, and so is what the driver itself had to say.
    pub(super) fn take_nodes(&mut self) -> Vec<FromNode> {
        let mut taken = Vec::new();
        let mut kept = VecDeque::with_capacity(self.items.len());
        for item in std::mem::take(&mut self.items) {
            match item {
                Item::Call(_) => kept.push_back(item),
                Item::Node(from) => taken.push(from),
                Item::Own(_) => {}
            }
        }
        self.replace(kept);
        taken
    }

    fn replace(&mut self, items: VecDeque<Item>) {
        self.bytes = items.iter().map(Item::bytes).sum();
        self.items = items;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::handle::Submission;

    fn call(received: Duration) -> (Item, oneshot::Receiver<Result<tenure_scheduler::Reply, SubmitError>>) {
        let (answer, answered) = oneshot::channel();
        let payload = Some(tenure_store::Payload { data: vec![0; 1000].into(), content_type: String::new() });
        let submission = Submission { command: Command::Tick, payload, more: Vec::new() };
        (Item::Call(Call { submission, answer, received, span: None, row: None, _room: None }), answered)
    }

    #[test]
    fn bytes_are_counted_in_and_out() {
        let mut batch = Batch::default();
        for _ in 0..3 {
            batch.push(call(Duration::ZERO).0);
        }
        batch.push_first(Command::Tick);
        assert_eq!(batch.bytes, 3000);
        let taken = [batch.take(true), batch.take(true)].concat_items();
        assert_eq!((taken.len(), batch.bytes), (2, 2000));
        batch.put_back(taken);
        assert_eq!((batch.items.len(), batch.bytes), (4, 3000));
        batch.take(false);
        assert_eq!((batch.items.len(), batch.bytes), (0, 0));
    }

    #[test]
    fn old_calls_are_answered_and_young_ones_stay() {
        let mut batch = Batch::default();
        let (old, mut answered) = call(Duration::from_secs(1));
        let (young, _young_answer) = call(Duration::from_secs(3));
        batch.push(old);
        batch.push(young);
        batch.answer_older_than(Duration::from_secs(2));
        assert!(matches!(answered.try_recv(), Ok(Err(SubmitError::StoreUnavailable { .. }))));
        assert_eq!(batch.items.len(), 1);
    }

    trait Concat {
        fn concat_items(self) -> Vec<Item>;
    }

    impl Concat for [Vec<Item>; 2] {
        fn concat_items(self) -> Vec<Item> {
            self.into_iter().flatten().collect()
        }
    }
}

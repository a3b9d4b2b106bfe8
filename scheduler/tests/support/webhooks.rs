//! Webhooks in scripts. A delivery is called as it is in the trace, `1.2` the second of the first epoch.
//!
//! | line | does |
//! |---|---|
//! | `webhook W kinds=K,L events=dead,… workflows url=U`, `drop webhook W` | changes the fleet file and applies it |
//! | `tried 1.2 1.3 [failed] [gone] retry_after=1m`, `tried` | says what became of tries |
//! | `redeliver 1.2`, `test W`, `back W` | operators |
//! | `due most=4 busy=1.2,1.3`, `webhooks` | says what is due, and how they stand |

use std::fmt::Write as _;

use tenure_scheduler::{
    Command, DeliveryFailure, DeliveryId, Ending, Epoch, KindName, State, Tried, Wall, WebhookName,
    WebhookPolicy,
};

use super::words::Line;

/// What a `webhook` line says.
pub(crate) fn policy(line: &Line) -> WebhookPolicy {
    let ending = |word: String| Ending::parse(&word).expect("an ending");
    WebhookPolicy {
        url: line.get("url").unwrap_or("https://receiver.test/hook").into(),
        secret: line.name(0).into(),
        events: match line.get("events") {
            Some(_) => line.list("events").into_iter().map(ending).collect(),
            None => Ending::ALL.into(),
        },
        kinds: line.get("kinds").map(|_| line.list("kinds").into_iter().map(KindName::new).collect()),
        workflows: line.has("workflows"),
    }
}

/// A delivery, as a script has it.
fn delivery(text: &str) -> DeliveryId {
    let (epoch, count) = text.split_once('.').expect("epoch.count");
    DeliveryId::mint(Epoch(epoch.parse().unwrap()), count.parse().unwrap())
}

/// What a line about webhooks wants.
pub(crate) fn command(line: &Line) -> Command {
    match line.verb.as_str() {
        "redeliver" => Command::Redeliver { delivery: delivery(line.name(0)) },
        "test" => Command::TestWebhook { webhook: WebhookName::new(line.name(0)) },
        "back" => Command::ResumeWebhook { webhook: WebhookName::new(line.name(0)) },
        _ => {
            let gone = line.has("gone");
            let failure = (gone || line.has("failed")).then(|| DeliveryFailure {
                error: "told by a script".into(),
                retry_after: line.duration("retry_after"),
                gone,
            });
            let named = line.names.iter().filter(|word| word.contains('.'));
            let tried = named.map(|text| Tried { delivery: delivery(text), failure: failure.clone() });
            Command::SettleDeliveries { tried: tried.collect() }
        }
    }
}

/// What is due, and when the next is.
pub(crate) fn due(state: &State, now: Wall, line: &Line) -> String {
    let busy = line.list("busy").iter().map(|text| delivery(text)).collect();
    let most = line.number("most").unwrap_or(usize::MAX);
    let due = state.due_deliveries(now, &busy, most);
    let due: Vec<String> = due
        .iter()
        .map(|due| format!("{} to {} at {}", due.delivery.id, due.delivery.webhook, due.url))
        .collect();
    if !due.is_empty() {
        return format!("due: {}", due.join(", "));
    }
    match state.next_delivery(now, &busy, most) {
        Some(next) => format!("nothing is due for {:?}", next.since(now)),
        None => "nothing is due".to_owned(),
    }
}

/// How they stand.
pub(crate) fn text(state: &State, now: Wall) -> String {
    let mut text = String::new();
    for view in state.webhooks() {
        write!(text, "{} waiting={} failed={}", view.webhook.name, view.waiting, view.failed).unwrap();
        if let Some(oldest) = view.oldest {
            write!(text, " oldest={:?}", now.since(oldest)).unwrap();
        }
        if view.dropped > 0 {
            write!(text, " dropped={}", view.dropped).unwrap();
        }
        text.push_str(if view.webhook.gone.is_some() { " gone\n" } else { "\n" });
    }
    text
}

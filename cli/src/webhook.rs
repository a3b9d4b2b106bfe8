//! `tenure webhook`: who is told when a job or a workflow ends, and what has not arrived.

use clap::Subcommand;
use tenure_client::Client;
use tenure_client::proto::{Delivery, DeliveryState, ListDeliveriesResponse, ListWebhooksResponse, Webhook};

use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Field, Output, Table, Tone, note};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// All webhooks, with how much waits for each and for how long.
    List,
    /// Deliveries that have not arrived, the oldest first.
    Deliveries {
        /// Of this webhook only.
        webhook: Option<String>,
        /// Only those that were given up.
        #[arg(long)]
        failed: bool,
        /// At most so many.
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
        limit: u16,
    },
    /// One delivery that has not arrived, with what is sent.
    Show {
        /// Its id: the `webhook-id` that its receiver gets.
        delivery: String,
    },
    /// Sends a delivery now that has not arrived, and as often as a new one.
    Redeliver {
        /// Its id.
        delivery: String,
    },
    /// Sends a webhook an event that is about nothing, and prints the id of its delivery.
    Test {
        /// Its name.
        webhook: String,
    },
    /// Sends to a webhook again whose receiver said that it is gone (410).
    Resume {
        /// Its name.
        webhook: String,
    },
}

impl WebhookCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::List | Self::Deliveries { .. } | Self::Show { .. } => false,
            Self::Redeliver { .. } | Self::Test { .. } | Self::Resume { .. } => true,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: WebhookCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        WebhookCommand::List => {
            let answer = ListWebhooksResponse { webhooks: client.webhooks().await? };
            output.show(&answer, answer.webhooks.iter().map(|webhook| webhook.name.as_str()), || {
                if answer.webhooks.is_empty() {
                    note("no webhooks; `tenure apply FILE` declares them");
                    return Ok(());
                }
                output.table(&list(&answer.webhooks, output))
            })?;
        }
        WebhookCommand::Deliveries { webhook, failed, limit } => {
            let state = if failed { DeliveryState::Failed } else { DeliveryState::Unspecified };
            let deliveries = client.deliveries(webhook.as_deref(), state, limit.into()).await?;
            let empty =
                if deliveries.is_empty() { Some(nothing(client, webhook, failed).await?) } else { None };
            let answer = ListDeliveriesResponse { deliveries, next_page_token: String::new() };
            output.show(&answer, answer.deliveries.iter().map(|delivery| delivery.id.as_str()), || {
                if let Some(said) = &empty {
                    note(said);
                    return Ok(());
                }
                output.table(&table(&answer.deliveries, output))
            })?;
        }
        WebhookCommand::Show { delivery } => {
            let answer = client.delivery(&delivery).await?;
            let shown = answer.delivery.clone().unwrap_or_default();
            output.show(&answer, [shown.id.as_str()], || {
                output.table(&table(std::slice::from_ref(&shown), output))?;
                output.line("")?;
                output.line(&answer.body)
            })?;
        }
        WebhookCommand::Redeliver { delivery } => {
            let answer = client.redeliver(&delivery).await?;
            let verb = if answer.changed { "is sent again" } else { "is to be sent already" };
            output.did(&answer, &delivery, format!("{delivery} {verb}"))?;
        }
        WebhookCommand::Test { webhook } => {
            let answer = client.test_webhook(&webhook).await?;
            let id = answer.delivery.as_ref().map(|delivery| delivery.id.clone()).unwrap_or_default();
            output.show(&answer, [id.as_str()], || output.line(&id))?;
        }
        WebhookCommand::Resume { webhook } => {
            let answer = client.resume_webhook(&webhook).await?;
            let verb = if answer.changed { "is told again what waits for it" } else { "was not gone" };
            output.did(&answer, &webhook, format!("{webhook} {verb}"))?;
        }
    }
    Ok(Exit::Ok)
}

/// What is said where no delivery was found: only what is so of the webhook, or of all.
async fn nothing(client: &Client, named: Option<String>, failed: bool) -> Result<String, Failure> {
    let mut webhooks = client.webhooks().await?;
    if let Some(name) = named {
        if webhooks.iter().all(|webhook| webhook.name != name) {
            let known = webhooks.into_iter().map(|webhook| webhook.name).collect();
            return Err(Failure::Unknown { noun: "webhook", name, known });
        }
        webhooks.retain(|webhook| webhook.name == name);
    }
    let sum = |count: fn(&Webhook) -> u64| webhooks.iter().map(count).fold(0, u64::saturating_add);
    let (waiting, dropped) = (sum(|webhook| webhook.waiting), sum(|webhook| webhook.dropped));
    Ok(match (waiting, dropped) {
        (0, 0) => "everything has arrived".to_owned(),
        (0, dropped) => format!("nothing waits; {dropped} were not told, since too much waited"),
        (waiting, _) if failed => {
            format!("none was given up; {waiting} wait, which are shown without --failed")
        }
        (waiting, _) => {
            format!("nothing to show, but {waiting} wait by now; the same command again shows them")
        }
    })
}

fn list(webhooks: &[Webhook], output: &Output) -> Table {
    let headers = ["WEBHOOK", "EVENTS", "KINDS", "WAITING", "OLDEST", "FAILED", "STATE"];
    let mut table = Table::new(headers.into_iter().chain(output.wide(|| ["WORKFLOWS", "SECRET", "URL"])));
    for webhook in webhooks {
        let of_kinds = if webhook.kinds.is_empty() { "all".to_owned() } else { webhook.kinds.join(",") };
        let tone = |count: u64| if count == 0 { Tone::Plain } else { Tone::Notice };
        let fields = [
            webhook.name.as_str().into(),
            webhook.events.join(",").into(),
            of_kinds.into(),
            Field::figure(webhook.waiting),
            output.age(webhook.oldest_wait_time.as_ref()).into(),
            Field::toned_figure(webhook.failed, tone(webhook.failed)),
            state(webhook, output),
        ];
        let more = output.wide(|| {
            let workflows = if webhook.workflows { "yes" } else { "no" };
            [workflows.into(), webhook.secret.as_str().into(), webhook.url.as_str().into()]
        });
        table.row(fields.into_iter().chain(more));
    }
    table
}

fn state(webhook: &Webhook, output: &Output) -> Field {
    if webhook.gone_time.is_some() {
        let since = output.when(webhook.gone_time.as_ref());
        return Field::toned(format!("gone (410), {since}"), Tone::Notice);
    }
    if webhook.dropped > 0 {
        return Field::toned(format!("{} not told: too much waited", webhook.dropped), Tone::Notice);
    }
    "-".into()
}

fn table(deliveries: &[Delivery], output: &Output) -> Table {
    let headers = ["DELIVERY", "WEBHOOK", "TYPE", "STATE", "TRIES", "AGE", "ERROR"];
    let mut table = Table::new(headers.into_iter().chain(output.wide(|| ["NEXT"])));
    for delivery in deliveries {
        let state = match delivery.state() {
            DeliveryState::Failed => Field::toned("failed", Tone::Notice),
            DeliveryState::Waiting => "waiting".into(),
            DeliveryState::Unspecified => "-".into(),
        };
        let fields = [
            delivery.id.as_str().into(),
            delivery.webhook.as_str().into(),
            delivery.r#type.as_str().into(),
            state,
            Field::figure(delivery.tries),
            output.age(delivery.create_time.as_ref()).into(),
            human::brief(&delivery.error, 120).into(),
        ];
        let more = output.wide(|| [Field::from(output.when(delivery.next_time.as_ref()))]);
        table.row(fields.into_iter().chain(more));
    }
    table
}

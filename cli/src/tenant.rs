//! `tenure tenant`: whose work it is, and how much of the fleet each has.

use clap::Subcommand;
use tenure_client::Client;
use tenure_client::proto::{GetFleetResponse, Tenant};

use crate::exit::{Exit, Failure};
use crate::output::{Field, Output, Table, Tone, note};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// The tenants that are declared, or have leases or queued jobs.
    List,
}

/// Runs one verb.
pub(crate) async fn run(command: TenantCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    let TenantCommand::List = command;
    let answer = GetFleetResponse { tenants: client.tenants().await?, ..GetFleetResponse::default() };
    output.show(&answer, answer.tenants.iter().map(|tenant| tenant.name.as_str()), || {
        if answer.tenants.is_empty() {
            note("no tenants; the fleet file declares none, and none has leases or queued jobs");
            return Ok(());
        }
        output.table(&list(&answer.tenants, output))
    })?;
    Ok(Exit::Ok)
}

fn list(tenants: &[Tenant], output: &Output) -> Table {
    let headers = ["TENANT", "WEIGHT", "SHARE", "OF SLOT", "QUEUED", "LEASES"];
    let mut table = Table::new(headers.into_iter().chain(output.wide(|| ["USED"])));
    for tenant in tenants {
        let fields = [
            tenant.name.as_str().into(),
            Field::figure(tenant.weight),
            if tenant.share_permille > 1000 {
                Field::toned_figure(share(tenant.share_permille), Tone::Notice)
            } else {
                Field::figure(share(tenant.share_permille))
            },
            if tenant.dominant_slot.is_empty() { "-".into() } else { tenant.dominant_slot.as_str().into() },
            Field::figure(tenant.queued),
            Field::figure(tenant.leases),
        ];
        let used = output.wide(|| [used(tenant).into()]);
        table.row(fields.into_iter().chain(used));
    }
    table
}

/// Thousandths as a percentage.
fn share(permille: u32) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

fn used(tenant: &Tenant) -> String {
    let all = tenant.used.iter().map(|used| format!("{} {}/{}", used.slot, used.used, used.capacity));
    let all: Vec<String> = all.collect();
    if all.is_empty() { "-".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_reads_as_a_percentage() {
        assert_eq!([0, 5, 333, 1000, 2500].map(share), ["0.0 %", "0.5 %", "33.3 %", "100.0 %", "250.0 %"]);
    }
}

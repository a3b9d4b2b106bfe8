//! Operators' verbs for cron entries. Thin: check, submit, show.

use tenure_proto::v1::{self, cron_service_server::CronService};
use tenure_scheduler::{Command, CronEntry, CronName, Reply};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::{Api, unexpected},
    auth::Caller,
    check::Checks,
    convert,
    jobs::fresh_id,
    status::No,
};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Cron(pub(crate) Api);

#[async_trait]
impl CronService for Cron {
    async fn list_cron_entries(
        &self,
        _: Request<v1::ListCronEntriesRequest>,
    ) -> Result<Response<v1::ListCronEntriesResponse>, Status> {
        self.0.answer(list(&self.0).await)
    }

    async fn pause_cron_entry(
        &self,
        request: Request<v1::PauseCronEntryRequest>,
    ) -> Result<Response<v1::PauseCronEntryResponse>, Status> {
        let by = Caller::of(&request)?.enqueues_as();
        let pause = |entry| Command::PauseCron { entry, by: by.as_str().into() };
        let done = verb(&self.0, &request.into_inner().entry, pause).await;
        self.0.answer(done.map(|(entry, changed)| v1::PauseCronEntryResponse { entry: Some(entry), changed }))
    }

    async fn resume_cron_entry(
        &self,
        request: Request<v1::ResumeCronEntryRequest>,
    ) -> Result<Response<v1::ResumeCronEntryResponse>, Status> {
        let done = verb(&self.0, &request.into_inner().entry, |entry| Command::ResumeCron { entry }).await;
        self.0
            .answer(done.map(|(entry, changed)| v1::ResumeCronEntryResponse { entry: Some(entry), changed }))
    }

    async fn run_cron_entry(
        &self,
        request: Request<v1::RunCronEntryRequest>,
    ) -> Result<Response<v1::RunCronEntryResponse>, Status> {
        self.0.answer(run(&self.0, &request.into_inner()).await)
    }
}

/// All entries, and what comes of each. The arithmetic is done here, not on the driver.
pub(super) async fn entries(api: &Api) -> Result<Vec<v1::CronEntry>, No> {
    let entries: Vec<CronEntry> = api.query(|state, _| state.crons().collect()).await?;
    let now = api.now();
    Ok(entries.iter().map(|entry| convert::cron::entry(entry, now)).collect())
}

async fn list(api: &Api) -> Result<v1::ListCronEntriesResponse, No> {
    Ok(v1::ListCronEntriesResponse { entries: entries(api).await? })
}

async fn verb(
    api: &Api,
    name: &str,
    command: impl FnOnce(CronName) -> Command,
) -> Result<(v1::CronEntry, bool), No> {
    let mut checks = Checks::default();
    let name = checks.name("entry", name, CronName::parse);
    checks.finish()?;
    let Some(name) = name else { return Err(No::invalid_field("entry", "is required")) };
    let Reply::Cron { entry, changed } = api.submit(command(name)).await? else {
        return Err(unexpected("pause or resume of a cron entry"));
    };
    Ok((convert::cron::entry(&entry, api.now()), changed))
}

async fn run(api: &Api, request: &v1::RunCronEntryRequest) -> Result<v1::RunCronEntryResponse, No> {
    let mut checks = Checks::default();
    let entry = checks.name("entry", &request.entry, CronName::parse);
    let job = checks.optional_job_id("job_id", &request.job_id);
    if job.is_some_and(|job| job.0.get_version_num() != 7 || job.0.get_variant() != uuid::Variant::RFC4122) {
        checks.refuse("job_id", "is no UUID of version 7");
    }
    checks.finish()?;
    let Some(entry) = entry else { return Err(No::invalid_field("entry", "is required")) };
    let job = job.unwrap_or_else(|| fresh_id(api));
    let Reply::Enqueued { job, deduplicated } =
        api.submit(Command::RunCron { entry, job, prior: None }).await?
    else {
        return Err(unexpected("run of a cron entry"));
    };
    let kinds = api.kinds([&job.kind]).await?;
    let job = convert::job::job(&job, kinds.get(&job.kind), None);
    Ok(v1::RunCronEntryResponse { job: Some(job), deduplicated })
}

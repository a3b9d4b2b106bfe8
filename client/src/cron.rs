//! Cron entries: what comes, what was missed, pause, resume, run now. Repeating a verb is harmless.

use tenure_proto::v1::{
    CronEntry, ListCronEntriesRequest, PauseCronEntryRequest, PauseCronEntryResponse, ResumeCronEntryRequest,
    ResumeCronEntryResponse, RunCronEntryRequest, RunCronEntryResponse,
};

use crate::retry::rpc;
use crate::{Client, Error};

impl Client {
    /// All cron entries, by name.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn cron_entries(&self) -> Result<Vec<CronEntry>, Error> {
        Ok(rpc!(self, cron.list_cron_entries, ListCronEntriesRequest {}).await?.value.entries)
    }

    /// Fires no instant of an entry. What comes meanwhile is not made up for.
    ///
    /// # Errors
    /// CRON_NOT_FOUND.
    pub async fn pause_cron_entry(&self, entry: &str) -> Result<PauseCronEntryResponse, Error> {
        let request = PauseCronEntryRequest { entry: entry.to_owned() };
        Ok(rpc!(self, cron.pause_cron_entry, request).await?.value)
    }

    /// Ends the pause of an entry.
    ///
    /// # Errors
    /// CRON_NOT_FOUND.
    pub async fn resume_cron_entry(&self, entry: &str) -> Result<ResumeCronEntryResponse, Error> {
        let request = ResumeCronEntryRequest { entry: entry.to_owned() };
        Ok(rpc!(self, cron.resume_cron_entry, request).await?.value)
    }

    /// Enqueues a job of an entry now, whatever its timetable says and whether it is paused. `job_id` is a UUID v7, by
    /// which a repeated call is the same call: see [`new_job_id`](crate::new_job_id).
    ///
    /// # Errors
    /// CRON_NOT_FOUND, JOB_ID_REUSED, and what refuses an enqueue of its kind.
    pub async fn run_cron_entry(&self, entry: &str, job_id: &str) -> Result<RunCronEntryResponse, Error> {
        let request = RunCronEntryRequest { entry: entry.to_owned(), job_id: job_id.to_owned() };
        Ok(rpc!(self, cron.run_cron_entry, request).await?.value)
    }
}

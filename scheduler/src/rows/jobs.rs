//! The live jobs of a load, in the order of their ids, in one piece of memory.
//!
//! A map of a million jobs is a million places between which an allocator keeps what was freed; one piece is given back to
//! the system whole, once every job has gone where it is kept.

use std::{ops::Index, slice, vec};

use crate::{ids::JobId, job::Job};

/// See the module. As a map from ids to jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobRows(Vec<Job>);

impl JobRows {
    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, id: JobId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |job| job.id)
    }

    /// The job with this id.
    #[must_use]
    pub fn get(&self, id: &JobId) -> Option<&Job> {
        self.0.get(self.find(*id).ok()?)
    }

    /// The same, to be changed. Its id stays.
    pub fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        let at = self.find(*id).ok()?;
        self.0.get_mut(at)
    }

    /// Whether there is a job with this id.
    #[must_use]
    pub fn contains_key(&self, id: &JobId) -> bool {
        self.find(*id).is_ok()
    }

    /// All ids, in order.
    pub fn keys(&self) -> impl Iterator<Item = &JobId> {
        self.0.iter().map(|job| &job.id)
    }

    /// All jobs, in the order of their ids.
    pub fn values(&self) -> slice::Iter<'_, Job> {
        self.0.iter()
    }

    /// The same, to be changed. Their ids stay.
    pub fn values_mut(&mut self) -> slice::IterMut<'_, Job> {
        self.0.iter_mut()
    }

    /// All ids with their jobs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&JobId, &Job)> {
        self.0.iter().map(|job| (&job.id, job))
    }
}

impl Index<&JobId> for JobRows {
    type Output = Job;

    /// Panics if there is none, as a map does.
    #[expect(clippy::expect_used, reason = "as a map does")]
    fn index(&self, id: &JobId) -> &Job {
        self.get(id).expect("there is no such job")
    }
}

/// In any order; their ids differ.
impl From<Vec<Job>> for JobRows {
    fn from(mut jobs: Vec<Job>) -> Self {
        jobs.sort_unstable_by_key(|job| job.id);
        Self(jobs)
    }
}

impl FromIterator<Job> for JobRows {
    fn from_iter<I: IntoIterator<Item = Job>>(jobs: I) -> Self {
        jobs.into_iter().collect::<Vec<_>>().into()
    }
}

impl IntoIterator for JobRows {
    type Item = Job;
    type IntoIter = vec::IntoIter<Job>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

//! Figures of results that stand in object storage.

use prometheus::{IntGaugeVec, Opts, Registry};

use super::{Figure, Metrics};

impl Metrics {
    /// Every label that there will be, at zero.
    pub(super) fn begin_results(&self) {
        for outcome in ["stored", "refused", "failed"] {
            self.uploads.with_label_values(&[outcome]);
        }
        for way in ["written", "read"] {
            self.object_bytes.with_label_values(&[way]);
        }
        self.observe_missing_objects(0);
    }

    /// A node sent a result; the outcome is `stored`, `refused` or `failed`.
    pub(crate) fn observe_upload(&self, outcome: &'static str) {
        self.uploads.with_label_values(&[outcome]).inc();
    }

    /// Bytes went into (`written`) or out of (`read`) object storage.
    pub(crate) fn observe_object_bytes(&self, way: &'static str, count: usize) {
        self.object_bytes.with_label_values(&[way]).inc_by(count as u64);
    }

    /// An object that nothing names was removed.
    pub(crate) fn observe_swept_object(&self) {
        self.swept_objects.with_label_values::<&str>(&[]).inc();
    }

    /// So many objects are missing.
    pub(crate) fn observe_missing_objects(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.missing_objects.with_label_values::<&str>(&[]).set(count);
    }
}

pub(super) fn missing_objects(registry: &Registry) -> Result<IntGaugeVec, prometheus::Error> {
    let spec = Figure::MissingObjects.spec();
    let vec = IntGaugeVec::new(Opts::new(spec.name, spec.help), spec.labels)?;
    registry.register(Box::new(vec.clone()))?;
    Ok(vec)
}

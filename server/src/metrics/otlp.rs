//! The same figures by OTLP: instruments of the OpenTelemetry API that read what `/metrics` shows.
//!
//! Responsible for one instrument for each line of the table of names. Not responsible for when they are read, or where
//! they go: that is the global provider's. Invariant: a counter or gauge has no second place where it is kept. A
//! histogram has: the API takes single values only, so that it is told of each beside Prometheus.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use opentelemetry::{
    KeyValue, global,
    metrics::{AsyncInstrument, Histogram, Meter},
};
use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::{Figure, Metrics, Scrape, Shape};
use crate::clock::Clock;

/// All instruments of one collection see the same figures if they read them within this.
const SAME_COLLECTION: Duration = Duration::from_millis(500);

/// Figures as they were read last.
struct Source<S> {
    metrics: Arc<Metrics>,
    scrape: S,
    clock: Clock,
    /// When, by the steady clock, and what.
    read: Mutex<Option<(Duration, Arc<Vec<MetricFamily>>)>>,
}

impl<S: Fn() -> Scrape> Source<S> {
    fn read(&self) -> Arc<Vec<MetricFamily>> {
        let now = self.clock.steady();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, families)) = &*read
            && now.saturating_sub(*at) < SAME_COLLECTION
        {
            return Arc::clone(families);
        }
        // A bug in the table of names shows on `/metrics`; here it leaves the figure out.
        let families = Arc::new(self.metrics.families(&(self.scrape)()).unwrap_or_default());
        *read = Some((now, Arc::clone(&families)));
        families
    }

    fn observe(&self, name: &str, instrument: &dyn AsyncInstrument<f64>) {
        for family in self.read().iter().filter(|family| family.name() == name) {
            for metric in family.get_metric() {
                let value = match family.get_field_type() {
                    MetricType::COUNTER => metric.get_counter().get_value(),
                    MetricType::GAUGE => metric.get_gauge().get_value(),
                    MetricType::HISTOGRAM | MetricType::SUMMARY | MetricType::UNTYPED => continue,
                };
                instrument.observe(value, &attributes(metric));
            }
        }
    }
}

/// Makes the instruments. They live as long as the process's provider.
pub(crate) fn export(
    metrics: &Arc<Metrics>,
    clock: Clock,
    scrape: impl Fn() -> Scrape + Send + Sync + 'static,
) {
    let meter = global::meter("tenure-server");
    let source = Arc::new(Source { metrics: Arc::clone(metrics), scrape, clock, read: Mutex::default() });
    for figure in Figure::ALL {
        let (spec, source) = (figure.spec(), Arc::clone(&source));
        match spec.shape {
            Shape::Counter => {
                let read = move |instrument: &dyn AsyncInstrument<f64>| source.observe(spec.name, instrument);
                meter
                    .f64_observable_counter(spec.name)
                    .with_description(spec.help)
                    .with_callback(read)
                    .build();
            }
            Shape::Gauge => {
                let read = move |instrument: &dyn AsyncInstrument<f64>| source.observe(spec.name, instrument);
                let gauge = meter.f64_observable_gauge(spec.name).with_description(spec.help);
                gauge.with_unit(unit(spec.name)).with_callback(read).build();
            }
            Shape::Histogram(_) => {} // told of each value, see `histogram`
        }
    }
    metrics.export_histograms(&meter);
}

/// A histogram with the bounds of Prometheus's.
pub(super) fn histogram(meter: &Meter, figure: Figure) -> Histogram<f64> {
    let spec = figure.spec();
    let mut builder = meter.f64_histogram(spec.name).with_description(spec.help).with_unit(unit(spec.name));
    if let Shape::Histogram(bounds) = spec.shape {
        builder = builder.with_boundaries(bounds.to_vec());
    }
    builder.build()
}

/// By the name, which ends in it. Counts have none.
fn unit(name: &str) -> &'static str {
    if name.ends_with("_seconds") { "s" } else { "" }
}

fn attributes(metric: &Metric) -> Vec<KeyValue> {
    let labels = metric.get_label().iter();
    labels.map(|label| KeyValue::new(label.name().to_owned(), label.value().to_owned())).collect()
}

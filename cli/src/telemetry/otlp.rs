//! Export of spans and figures by OTLP, as the standard environment of OpenTelemetry says.
//!
//! Responsible for whether anything is exported, for a collector that is away (a warning, at most once a minute, and
//! nothing else), and for a bounded flush at the end. Not responsible for what a span or a figure is: server and agent
//! make them by the API alone, under the global providers that are set here.
//!
//! Invariants: without an endpoint nothing is started and nothing costs anything; nobody ever waits for the collector;
//! no value of the environment is logged, for endpoints and headers may hold secrets.

use std::fmt;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream, Temporality};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use tenure_server::config::Telemetry;
use uuid::Uuid;

use crate::clock;

/// What the last spans and figures have at the end of the process. The collector of a healthy host takes milliseconds.
const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// A collector that is away is told of this often, per signal.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The most series of one figure. Kinds, slots and nodes are declared names; past this they are summed up by the SDK.
const MOST_SERIES: usize = 10_000;

/// What is exported from this process.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
}

/// A signal of OpenTelemetry, by its names in the environment.
#[derive(Clone, Copy, Debug)]
enum Signal {
    Traces,
    Metrics,
}

impl Exports {
    /// Starts what the environment asks for. Must be called inside the runtime: the channel to the collector lives there.
    pub(crate) fn start(service: &'static str) -> Self {
        let own = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let resource = resource(service, own);
        let mut exports = Self::default();
        if wanted(Signal::Traces, own) {
            match SpanExporter::builder().with_tonic().build() {
                Ok(exporter) => {
                    let provider = SdkTracerProvider::builder()
                        .with_batch_exporter(Warned::new(exporter, Signal::Traces))
                        .with_resource(resource.clone())
                        .build();
                    global::set_tracer_provider(provider.clone());
                    exports.traces = Some(provider);
                }
                Err(_) => unusable(Signal::Traces),
            }
        }
        if wanted(Signal::Metrics, own) {
            match MetricExporter::builder().with_tonic().build() {
                Ok(exporter) => {
                    let provider = SdkMeterProvider::builder()
                        .with_periodic_exporter(Warned::new(exporter, Signal::Metrics))
                        .with_resource(resource)
                        .with_view(many_series)
                        .build();
                    global::set_meter_provider(provider.clone());
                    exports.metrics = Some(provider);
                }
                Err(_) => unusable(Signal::Metrics),
            }
        }
        let Telemetry { traces, metrics } = exports.telemetry();
        if traces || metrics {
            tracing::info!(traces, metrics, "exporting by OTLP");
        }
        exports
    }

    /// What server and agent are to tell.
    pub(crate) fn telemetry(&self) -> Telemetry {
        Telemetry { traces: self.traces.is_some(), metrics: self.metrics.is_some() }
    }

    /// Sends what is left, for a bounded time: afterwards it is lost. Blocks, so that it comes after everything else.
    pub(crate) fn flush(self) {
        if self.traces.is_none() && self.metrics.is_none() {
            return;
        }
        let (done, flushed) = mpsc::sync_channel(1);
        // The SDK's own bounds are longer, or not kept: the thread is left behind if it takes too long.
        let spawned = std::thread::Builder::new().name("otlp-flush".to_owned()).spawn(move || {
            let traces = self.traces.map_or(Ok(()), |traces| traces.shutdown_with_timeout(FLUSH_WITHIN));
            let metrics = self.metrics.map_or(Ok(()), |metrics| metrics.shutdown_with_timeout(FLUSH_WITHIN));
            done.send(traces.is_ok() && metrics.is_ok()).ok(); // nobody may wait any more
        });
        let flushed = spawned.is_ok() && flushed.recv_timeout(FLUSH_WITHIN) == Ok(true);
        if !flushed {
            tracing::warn!("the last spans and figures did not reach the collector");
        }
    }
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "figures",
        }
    }

    /// The variables that decide about it: endpoint, protocol, and the exporter that `none` switches off.
    fn variables(self) -> [&'static str; 3] {
        match self {
            Self::Traces => [
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                "OTEL_TRACES_EXPORTER",
            ],
            Self::Metrics => [
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
                "OTEL_METRICS_EXPORTER",
            ],
        }
    }
}

/// Whether the environment asks for a signal. A protocol that is not spoken here is told, and costs the signal.
fn wanted(signal: Signal, own: impl Fn(&str) -> Option<String>) -> bool {
    let [endpoint, protocol, exporter] = signal.variables();
    let has_endpoint = own(endpoint).or_else(|| own("OTEL_EXPORTER_OTLP_ENDPOINT")).is_some();
    let disabled = own("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if !has_endpoint || disabled || own(exporter).is_some_and(|exporter| exporter != "otlp") {
        return false;
    }
    let protocol = own(protocol).or_else(|| own("OTEL_EXPORTER_OTLP_PROTOCOL"));
    let spoken = protocol.is_none_or(|protocol| protocol == "grpc");
    if !spoken {
        tracing::warn!(
            signal = signal.name(),
            "not exported: only grpc is spoken; set OTEL_EXPORTER_OTLP_PROTOCOL=grpc and the endpoint's gRPC port"
        );
    }
    spoken
}

fn unusable(signal: Signal) {
    let [endpoint, ..] = signal.variables();
    tracing::warn!(
        signal = signal.name(),
        variable = endpoint,
        "not exported: the endpoint there, or in OTEL_EXPORTER_OTLP_ENDPOINT, is no http:// address"
    );
}

/// Who exports. What the environment says wins.
fn resource(service: &'static str, own: impl Fn(&str) -> Option<String>) -> Resource {
    let named = |key: &str| {
        let all = own("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        all.split(',').any(|pair| pair.split_once('=').is_some_and(|(name, _)| name.trim() == key))
    };
    let mut resource = Resource::builder();
    if own("OTEL_SERVICE_NAME").is_none() && !named("service.name") {
        resource = resource.with_service_name(service);
    }
    if !named("service.version") {
        resource = resource.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    if !named("service.instance.id") {
        resource = resource.with_attribute(KeyValue::new("service.instance.id", Uuid::new_v4().to_string()));
    }
    resource.build()
}

fn many_series(instrument: &Instrument) -> Option<Stream> {
    let ours = instrument.name().starts_with("tenure_");
    ours.then(|| Stream::builder().with_cardinality_limit(MOST_SERIES).build().ok()).flatten()
}

/// An exporter whose failures are told, seldom: the SDK tells nobody.
struct Warned<E> {
    inner: E,
    signal: Signal,
    told: Mutex<Option<Instant>>,
}

impl<E> Warned<E> {
    fn new(inner: E, signal: Signal) -> Self {
        Self { inner, signal, told: Mutex::new(None) }
    }

    fn note(&self, result: OTelSdkResult) -> OTelSdkResult {
        if result.is_err() && is_due(&self.told, clock::mono()) {
            // The cause may repeat what the environment says: headers and addresses stay out of the log.
            tracing::warn!(
                signal = self.signal.name(),
                "the collector does not take what is exported; it is dropped, nothing waits for it"
            );
        }
        result
    }
}

/// Whether it is time to tell again.
fn is_due(told: &Mutex<Option<Instant>>, now: Instant) -> bool {
    let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let due = told.is_none_or(|last| now.saturating_duration_since(last) >= WARN_EVERY);
    if due {
        *told = Some(now);
    }
    due
}

impl<E> fmt::Debug for Warned<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warned").field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl<E: opentelemetry_sdk::trace::SpanExporter> opentelemetry_sdk::trace::SpanExporter for Warned<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.note(self.inner.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Warned<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.note(self.inner.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Environment<'a> = &'a [(&'a str, &'a str)];

    fn asks(pairs: &[(&str, &str)], signal: Signal) -> bool {
        let own =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        wanted(signal, own)
    }

    #[test]
    fn nothing_is_exported_unless_the_environment_asks_for_it() {
        const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");
        const TRACES: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317");
        let cases: [(Environment<'_>, bool, bool); 8] = [
            (&[], false, false),
            (&[ALL], true, true),
            (&[TRACES], true, false),
            (&[ALL, ("OTEL_SDK_DISABLED", "true")], false, false),
            (&[ALL, ("OTEL_METRICS_EXPORTER", "none")], true, false),
            (&[ALL, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], false, false),
            (&[ALL, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")], false, true),
            (&[ALL, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], true, true),
        ];
        for (environment, traces, metrics) in cases {
            let found = (asks(environment, Signal::Traces), asks(environment, Signal::Metrics));
            assert_eq!(found, (traces, metrics), "{environment:?}");
        }
    }

    #[test]
    fn a_collector_that_is_away_is_told_of_once_a_minute() {
        let told = Mutex::new(None);
        let begin = clock::mono();
        let due: Vec<bool> = [0, 1, 59, 60, 61, 119, 121]
            .map(|second| is_due(&told, begin + Duration::from_secs(second)))
            .into();
        assert_eq!(due, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn the_environment_names_the_service() {
        let name = |pairs: &'static [(&str, &str)]| {
            let own =
                |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            resource("tenure-server", own).get(&"service.name".into()).map(|value| value.to_string())
        };
        assert_eq!(name(&[]).as_deref(), Some("tenure-server"));
        assert_ne!(name(&[("OTEL_SERVICE_NAME", "mine")]).as_deref(), Some("tenure-server"));
        assert_ne!(
            name(&[("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=mine")]).as_deref(),
            Some("tenure-server")
        );
    }
}

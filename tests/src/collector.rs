//! A collector of OpenTelemetry of our own: the two OTLP services over gRPC, which keep everything that they are sent.
//!
//! Responsible for taking spans and figures as any collector does, and for showing them. [`Silent`] is one that takes
//! connections and never answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::{
    HistogramDataPoint, Metric, ResourceMetrics, metric::Data, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span as Wire;
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// A collector that works. Dropped, it ends.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    received: Arc<Received>,
    /// One task; a set, so that it ends with this value.
    _serving: JoinSet<()>,
}

/// One that accepts connections, reads nothing and says nothing. Dropped, it ends.
#[derive(Debug)]
pub struct Silent {
    address: SocketAddr,
    /// One task; a set, so that it ends with this value.
    _holding: JoinSet<()>,
}

/// A span, as a test looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The service that it is of.
    pub service: String,
    /// Its name.
    pub name: String,
    /// 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    pub kind: i32,
    /// 32 hex digits.
    pub trace: String,
    /// 16 hex digits.
    pub id: String,
    /// The id of its parent; empty for a root.
    pub parent: String,
    /// `trace-span` of every link.
    pub links: Vec<String>,
    /// The `tracestate` of every link.
    pub link_states: Vec<String>,
    /// As texts.
    pub attributes: BTreeMap<String, String>,
    /// The names of its events.
    pub events: Vec<String>,
    /// Whether its status is an error.
    pub failed: bool,
}

#[derive(Debug, Default)]
struct Received {
    traces: Mutex<Vec<ExportTraceServiceRequest>>,
    metrics: Mutex<Vec<ExportMetricsServiceRequest>>,
}

impl Collector {
    /// Starts one on a free port of the loopback interface.
    ///
    /// # Errors
    /// If there is none.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let received = Arc::new(Received::default());
        let (traces, metrics) = (Desk(Arc::clone(&received)), Desk(Arc::clone(&received)));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let server = Server::builder()
                .add_service(TraceServiceServer::new(traces))
                .add_service(MetricsServiceServer::new(metrics));
            drop(server.serve_with_incoming(TcpListenerStream::new(listener)).await);
        });
        Ok(Self { address, received, _serving: serving })
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        let requests = self.received.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources
            .flat_map(|spans| {
                let service = service(spans.resource.as_ref());
                let spans = spans.scope_spans.iter().flat_map(|scope| &scope.spans);
                spans.map(move |span| seen(service.clone(), span)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The series of the newest export of a service, by their names and labels as Prometheus writes them; no sums of
    /// histograms.
    pub fn figures(&self, service_name: &str) -> BTreeMap<String, f64> {
        let requests = self.received.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = |metrics: &&ResourceMetrics| service(metrics.resource.as_ref()) == service_name;
        let newest =
            requests.iter().rev().find(|request| request.resource_metrics.iter().any(|of| is_ours(&of)));
        let ours = newest.into_iter().flat_map(|request| &request.resource_metrics).filter(is_ours);
        let metrics = ours.flat_map(|metrics| metrics.scope_metrics.iter().flat_map(|scope| &scope.metrics));
        metrics.flat_map(series).collect()
    }

    /// Everything that was received, as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for request in self.received.traces.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.extend(request.encode_to_vec());
        }
        for request in self.received.metrics.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.extend(request.encode_to_vec());
        }
        all
    }
}

impl Silent {
    /// Starts one on a free port of the loopback interface.
    ///
    /// # Errors
    /// If there is none.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut holding = JoinSet::new();
        holding.spawn(async move {
            let mut held: Vec<TcpStream> = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                held.push(connection);
            }
        });
        Ok(Self { address, _holding: holding })
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

#[derive(Debug)]
struct Desk(Arc<Received>);

#[tonic::async_trait]
impl TraceService for Desk {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.traces.lock().unwrap_or_else(PoisonError::into_inner).push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Desk {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.0.metrics.lock().unwrap_or_else(PoisonError::into_inner).push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn seen(service: String, span: &Wire) -> Span {
    Span {
        service,
        name: span.name.clone(),
        kind: span.kind,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        links: span
            .links
            .iter()
            .map(|link| format!("{}-{}", hex(&link.trace_id), hex(&link.span_id)))
            .collect(),
        link_states: span.links.iter().map(|link| link.trace_state.clone()).collect(),
        attributes: texts(&span.attributes).collect(),
        events: span.events.iter().map(|event| event.name.clone()).collect(),
        failed: span.status.as_ref().is_some_and(|status| status.code == 2),
    }
}

fn series(metric: &Metric) -> Vec<(String, f64)> {
    let number = |value: Option<number_data_point::Value>| match value {
        Some(number_data_point::Value::AsDouble(value)) => value,
        Some(number_data_point::Value::AsInt(value)) => value as f64,
        None => f64::NAN,
    };
    let numbers = match &metric.data {
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        Some(Data::Sum(sum)) => &sum.data_points,
        Some(Data::Histogram(histogram)) => {
            return histogram.data_points.iter().flat_map(|point| buckets(&metric.name, point)).collect();
        }
        Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => return Vec::new(),
    };
    numbers.iter().map(|point| (key(&metric.name, &point.attributes), number(point.value))).collect()
}

/// As Prometheus writes them: each bucket with those below it, and the count of all.
fn buckets(name: &str, point: &HistogramDataPoint) -> Vec<(String, f64)> {
    let bounds = point.explicit_bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    let mut below = 0;
    let mut series = vec![(key(&format!("{name}_count"), &point.attributes), point.count as f64)];
    for (bound, count) in bounds.zip(&point.bucket_counts) {
        below += count;
        let mut attributes = point.attributes.clone();
        let value = Some(AnyValue { value: Some(Value::StringValue(bound)) });
        attributes.push(KeyValue { key: "le".to_owned(), value, ..KeyValue::default() });
        series.push((key(&format!("{name}_bucket"), &attributes), below as f64));
    }
    series
}

fn key(name: &str, attributes: &[KeyValue]) -> String {
    let labels: BTreeMap<String, String> = texts(attributes).collect();
    if labels.is_empty() {
        return name.to_owned();
    }
    let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
    format!("{name}{{{}}}", labels.join(","))
}

fn service(resource: Option<&Resource>) -> String {
    let attributes = resource.map(|resource| resource.attributes.as_slice()).unwrap_or_default();
    texts(attributes).find(|(key, _)| key == "service.name").map(|(_, value)| value).unwrap_or_default()
}

fn texts(attributes: &[KeyValue]) -> impl Iterator<Item = (String, String)> {
    attributes.iter().map(|pair| {
        let value = match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            Some(Value::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        (pair.key.clone(), value)
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

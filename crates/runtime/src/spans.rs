//! Spans (RFC-0020): what became of each request, told to a collector of OpenTelemetry (OTLP over HTTP). There are none
//! unless a collector is configured. Which trace a request belongs to is the law's `traces.rs`; here it is measured.
//!
//! Spans are gathered and sent by a thread of the library's own, so that no request waits for the collector; what it
//! cannot take is dropped and said in the log.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use entente_domain::ids::Chance;
use entente_domain::traces::Trace;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, Sampler, SdkTracer, SdkTracerProvider};

use crate::tls;

/// How long the collector may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last spans may take to be sent when the server stops.
const FLUSH: Duration = Duration::from_secs(3);

/// A collector of OpenTelemetry.
#[derive(Clone)]
pub struct Collector {
    /// Its address, without the path that OTLP has for spans.
    pub endpoint: String,
    /// What it is sent along: names and values, often a key.
    pub headers: Vec<(String, String)>,
    /// Which part of the traces that begin here is measured, 0 to 1. Others decide for those that they began.
    pub ratio: f64,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// There is no client for the collector.
    #[error("no client for the collector of ENTENTE_OTLP_ENDPOINT: {0}")]
    Client(String),
    /// The exporter cannot be built from the configuration.
    #[error("ENTENTE_OTLP_ENDPOINT or ENTENTE_OTLP_HEADERS cannot be used: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Where spans are gathered.
#[derive(Debug)]
pub struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// What a request's answer was.
#[derive(Debug)]
pub struct Answered<'a> {
    /// Its method.
    pub method: &'static str,
    /// Its route's pattern.
    pub route: &'a str,
    /// Its path, without what is secret in it.
    pub path: &'a str,
    /// The answer's status.
    pub status: u16,
    /// Its id in the log.
    pub request_id: &'a str,
}

/// A request that is being measured.
#[derive(Debug)]
pub struct Span(opentelemetry_sdk::trace::Span);

impl Spans {
    /// Starts to send spans to a collector.
    ///
    /// # Errors
    /// The collector's address or headers cannot be used.
    pub fn start(collector: &Collector, chance: Arc<dyn Chance>) -> Result<Self, SpansError> {
        let headers: HashMap<String, String> = collector.headers.iter().cloned().collect();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client()?)
            .with_endpoint(format!("{}/v1/traces", collector.endpoint.trim_end_matches('/')))
            .with_headers(headers)
            .with_timeout(TIMEOUT)
            .build()?;
        let about = [
            KeyValue::new("service.name", "entente"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ];
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(collector.ratio)));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(sampler)
            .with_id_generator(Ids(chance))
            .with_resource(Resource::builder_empty().with_attributes(about).build())
            .build();
        let tracer = provider.tracer("entente");
        Ok(Self { provider, tracer })
    }

    /// Begins to measure a request, which belongs to the trace that it came with, or begins one.
    #[must_use]
    pub fn begin(&self, came_with: Option<Trace>) -> Span {
        let parent = came_with.map_or_else(Context::new, |trace| {
            let flags = if trace.sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
            Context::new().with_remote_span_context(SpanContext::new(
                TraceId::from_bytes(trace.trace_bits().to_be_bytes()),
                SpanId::from_bytes(trace.span_bits().to_be_bytes()),
                flags,
                true,
                TraceState::default(),
            ))
        });
        let named_when_routed = self.tracer.span_builder("request").with_kind(SpanKind::Server);
        Span(self.tracer.build_with_context(named_when_routed, &parent))
    }

    /// Sends what is left. To be called where waiting is allowed.
    pub fn stop(&self) {
        if let Err(failure) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(error = %failure, "the last spans were not sent to the collector");
        }
    }
}

impl Span {
    /// The request's place in its trace, for whatever it records or sends on. `None` when nobody asked for it: it came
    /// without a trace, and by the ratio it is not one of those that are measured.
    #[must_use]
    pub fn trace(&self) -> Option<Trace> {
        let context = self.0.span_context();
        let trace_id = u128::from_be_bytes(context.trace_id().to_bytes());
        let span_id = u64::from_be_bytes(context.span_id().to_bytes());
        let trace = Trace::new(trace_id, span_id, context.is_sampled());
        trace.filter(Trace::sampled)
    }

    /// Ends the measurement.
    pub fn end(mut self, answered: &Answered<'_>) {
        self.0.update_name(format!("{} {}", answered.method, answered.route));
        let told = [
            KeyValue::new("http.request.method", answered.method),
            KeyValue::new("http.route", answered.route.to_owned()),
            KeyValue::new("url.path", answered.path.to_owned()),
            KeyValue::new("http.response.status_code", i64::from(answered.status)),
            KeyValue::new("entente.request_id", answered.request_id.to_owned()),
        ];
        self.0.set_attributes(told);
        if answered.status >= 500 {
            self.0.set_status(Status::error(""));
        }
        self.0.end();
    }
}

/// The ids of traces and spans, from the server's own source of chance.
struct Ids(Arc<dyn Chance>);

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ids")
    }
}

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        TraceId::from_bytes(self.0.bits().max(1).to_be_bytes())
    }

    fn new_span_id(&self) -> SpanId {
        let [_, _, _, _, _, _, _, _, low @ ..] = self.0.bits().max(1).to_be_bytes();
        SpanId::from_bytes(u64::from_be_bytes(low).max(1).to_be_bytes())
    }
}

/// The client that the library's thread uses. It waits in place, so it must be made on a thread that may.
fn client() -> Result<reqwest::blocking::Client, SpansError> {
    let make = || {
        let tls = tls::client().map_err(|e| e.to_string())?;
        let client = reqwest::blocking::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("entente/", env!("CARGO_PKG_VERSION")))
            .timeout(TIMEOUT);
        client.build().map_err(|e| e.to_string())
    };
    let made = std::thread::spawn(make).join();
    made.unwrap_or_else(|_panicked| Err("the thread that makes it ended".to_owned()))
        .map_err(SpansError::Client)
}

//! Spans (RFC-0020) of requests, exported to an OpenTelemetry collector (OTLP over HTTP) if one is
//! configured. `traces.rs` in the domain decides which trace a request belongs to; this module measures it.
//!
//! A thread of the library batches and sends the spans, so no request waits for the collector. Spans that the
//! collector cannot take are dropped, and the log says so.

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

use crate::tls::{self, Authorities};

/// Time limit for one request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for sending the remaining spans when the server stops.
const FLUSH: Duration = Duration::from_secs(3);

/// Configuration of an OpenTelemetry collector.
#[derive(Clone)]
pub struct Collector {
    /// Base URL, without OTLP's path for spans.
    pub endpoint: String,
    /// Additional request headers as name and value, often an API key.
    pub headers: Vec<(String, String)>,
    /// Share of the traces that begin here to sample, 0 to 1.
    ///
    /// Traces begun elsewhere carry their own decision.
    pub ratio: f64,
    /// Authorities of its certificate besides those of the public web.
    pub authorities: Authorities,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Error of setting up the span exporter.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// The HTTP client for the collector cannot be built.
    #[error("no client for the collector of ENTENTE_OTLP_ENDPOINT: {0}")]
    Client(String),
    /// The exporter cannot be built from the configuration.
    #[error("ENTENTE_OTLP_ENDPOINT or ENTENTE_OTLP_HEADERS cannot be used: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Span recorder of this server.
#[derive(Debug)]
pub struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// Response of a request, recorded in its span.
#[derive(Debug)]
pub struct Answered<'a> {
    /// HTTP method.
    pub method: &'static str,
    /// Route pattern.
    pub route: &'a str,
    /// Path, without secrets.
    pub path: &'a str,
    /// HTTP status.
    pub status: u16,
    /// Request id, as in the log.
    pub request_id: &'a str,
}

/// Span of a request in progress.
#[derive(Debug)]
pub struct Span(opentelemetry_sdk::trace::Span);

impl Spans {
    /// Starts sending spans to a collector.
    ///
    /// # Errors
    /// The collector's address or headers cannot be used.
    pub fn start(collector: &Collector, chance: Arc<dyn Chance>) -> Result<Self, SpansError> {
        let headers: HashMap<String, String> = collector.headers.iter().cloned().collect();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client(&collector.authorities)?)
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

    /// Begins the span of a request, in the trace that the request carries or in a new one.
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

    /// Sends the remaining spans. Blocks, so call it only where blocking is allowed.
    pub fn stop(&self) {
        if let Err(failure) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(error = %failure, "the last spans were not sent to the collector");
        }
    }
}

impl Span {
    /// Returns the trace context of the request, for everything it records or sends on.
    ///
    /// `None` when the request is not sampled: it came without a trace and the ratio does not select it.
    #[must_use]
    pub fn trace(&self) -> Option<Trace> {
        let context = self.0.span_context();
        let trace_id = u128::from_be_bytes(context.trace_id().to_bytes());
        let span_id = u64::from_be_bytes(context.span_id().to_bytes());
        let trace = Trace::new(trace_id, span_id, context.is_sampled());
        trace.filter(Trace::sampled)
    }

    /// Ends the span.
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

/// Generates trace and span ids from the server's own randomness.
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

/// Builds the HTTP client for the library's thread.
///
/// It is a blocking client, so it must be built on a thread that may block.
fn client(authorities: &Authorities) -> Result<reqwest::blocking::Client, SpansError> {
    let authorities = authorities.clone();
    let make = move || {
        let tls = tls::client(&authorities).map_err(|e| e.to_string())?;
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

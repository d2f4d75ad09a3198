//! Spans (RFC-0020): the spans that an OpenTelemetry collector receives over a real socket.

use std::sync::{Arc, Mutex};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use entente_harness::{Setup, World, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Received spans, each with the value of the collector's key header.
type Heard = Arc<Mutex<Vec<(String, Span)>>>;

async fn take(request: HttpRequest, body: web::Bytes, heard: web::Data<Heard>) -> HttpResponse {
    let key = request.headers().get("x-collector-key").map_or("", |value| value.to_str().unwrap()).to_owned();
    let told = ExportTraceServiceRequest::decode(body).unwrap();
    let spans = told.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
    heard.lock().unwrap().extend(spans.map(|span| (key.clone(), span)));
    HttpResponse::Ok().finish()
}

/// Starts a collector; returns its address, the received spans and its handle.
fn collector() -> (String, Heard, actix_web::dev::ServerHandle) {
    let heard = Heard::default();
    let data = web::Data::new(Arc::clone(&heard));
    let server =
        HttpServer::new(move || App::new().app_data(data.clone()).route("/v1/traces", web::post().to(take)));
    let server = server.workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.addrs()[0]);
    let server = server.run();
    let handle = server.handle();
    tokio::spawn(server);
    (address, heard, handle)
}

fn said<'a>(span: &'a Span, name: &str) -> &'a Any {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    found.unwrap_or_else(|| panic!("no {name}")).value.as_ref().unwrap().value.as_ref().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    let padded = [vec![0; 16 - bytes.len()], bytes.to_vec()].concat();
    format!("{:0width$x}", u128::from_be_bytes(padded.try_into().unwrap()), width = 2 * bytes.len())
}

async fn world(address: &str, ratio: &'static str) -> World {
    let address: &'static str = Box::leak(address.to_owned().into_boxed_str());
    let settings = vec![
        ("ENTENTE_OTLP_ENDPOINT", address),
        ("ENTENTE_OTLP_HEADERS", "x-collector-key=sesame"),
        ("ENTENTE_OTLP_RATIO", ratio),
    ];
    World::with(Setup { settings, ..Setup::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_a_span_of_its_trace() {
    let (address, heard, collector) = collector();
    let world = world(&address, "1").await;
    let ada = world.agent("agent.ada").await;
    let traced = ada.with("traceparent", PARENT).with("x-request-id", "mine");
    let made = traced.post("/intents", json!({ "title": "t" })).await.ok();
    let intent = made["id"].as_str().unwrap().to_owned();
    ada.get(&format!("/intents/{intent}")).await.ok();
    ada.post("/intents", json!({})).await.refused(422, "invalid_request");
    ada.get("//healthz").await.ok();
    // A request without a trace starts one, and the event records its id.
    let posted = ada.post(&format!("/intents/{intent}/events"), json!({ "event_type": "note" })).await.ok();
    world.end().await;

    let heard = heard.lock().unwrap().clone();
    let names: Vec<&str> = heard.iter().map(|(_, span)| span.name.as_str()).collect();
    let expected = [
        "POST /api/v1/intents",
        "GET /api/v1/intents/{intent_id}",
        "POST /api/v1/intents",
        "POST /api/v1/intents/{intent_id}/events",
    ];
    assert_eq!(names, expected, "who looks after the server is not measured");
    assert!(
        heard.iter().all(|(key, span)| key == "sesame" && span.kind == 2),
        "servers' spans, with the key"
    );
    let (_, first) = &heard[0];
    assert_eq!(
        (hex(&first.trace_id).as_str(), hex(&first.parent_span_id).as_str()),
        (TRACE, "00f067aa0ba902b7")
    );
    assert_eq!(said(first, "http.response.status_code"), &Any::IntValue(200));
    assert_eq!(said(first, "http.route"), &Any::StringValue("/api/v1/intents".to_owned()));
    assert_eq!(said(first, "entente.request_id"), &Any::StringValue("mine".to_owned()));
    let (_, refused) = &heard[2];
    assert_eq!(said(refused, "http.response.status_code"), &Any::IntValue(422));
    assert_eq!(
        refused.status.as_ref().map_or(0, |status| status.code),
        0,
        "a client's fault is not the server's"
    );
    let (_, last) = &heard[3];
    assert_eq!(posted["trace_id"], hex(&last.trace_id));
    assert!(last.parent_span_id.is_empty() && last.end_time_unix_nano >= last.start_time_unix_nano);
    collector.stop(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_span_has_a_secret_of_a_url() {
    let (address, heard, collector) = collector();
    let world = world(&address, "1").await;
    let ada = world.agent("agent.ada").await;
    let id = "trigger_01J9ZK4T6Q8R2V5X7Y9B1C3D5F";
    for path in [format!("/hooks/{id}/sesame-open"), format!("/hooks/{id}/sesame-open/more")] {
        ada.post(&path, json!({})).await;
        ada.get(&path).await;
    }
    world.end().await;
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 4);
    assert!(!format!("{heard:?}").contains("sesame-open"), "{heard:?}");
    collector.stop(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_began_a_trace_decides_whether_it_is_measured() {
    let (address, heard, collector) = collector();
    let world = world(&address, "0").await;
    let ada = world.agent("agent.ada").await;
    let unmeasured = ada.post("/intents", json!({ "title": "none" })).await.ok();
    let quiet = ada.with("traceparent", &PARENT.replace("-01", "-00"));
    let quiet = quiet.post("/intents", json!({ "title": "quiet" })).await.ok();
    let loud = ada.with("traceparent", PARENT).post("/intents", json!({ "title": "loud" })).await.ok();
    let trace = async |intent: &entente_harness::Value| {
        let log = ada.get(&format!("/intents/{}/events", intent["id"].as_str().unwrap())).await.ok();
        log[0].get("trace_id").cloned()
    };
    assert_eq!(trace(&unmeasured).await, None, "nobody asked for a trace");
    assert_eq!(trace(&quiet).await, Some(json!(TRACE)), "a trace that is not measured is one all the same");
    assert_eq!(trace(&loud).await, Some(json!(TRACE)));
    world.end().await;
    assert_eq!(heard.lock().unwrap().len(), 1);
    collector.stop(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_holds_nobody_up() {
    let world = world("http://127.0.0.1:9", "1").await;
    let ada = world.agent("agent.ada").await;
    for _ in 0..20 {
        ada.post("/intents", json!({ "title": "t" })).await.ok();
    }
    world.end().await;
}

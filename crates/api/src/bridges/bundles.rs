//! Endpoints of bundles, over all protocols: an intent is exported as one, and bundles of other servers are imported.

use actix_web::{HttpResponse, delete, get, post, web};
use bytes::Bytes;
use entente_bridges::bundles::imports::{self, Import};
use entente_bridges::bundles::records::{self, BundleLine, BundleRecord, LineFilter};
use entente_bridges::bundles::{self, Lines};
use entente_domain::bundles::Section;
use entente_domain::identity::keys::Dialect;
use entente_domain::identity::signatures::PublicKey;
use entente_domain::ids::{BundleId, IntentId};
use entente_domain::limits::PAGE;
use entente_http::body::{Limit1000, Query, Upload, id};
use entente_http::caller::Asker;
use entente_http::error::{Problem, Reply};
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{created, ok};
use entente_kernel::AppError;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::ApiState;

pub fn routes(config: &mut Routes<'_>) {
    config
        .service(export)
        .service(import)
        .service(list)
        .service(get)
        .service(file)
        .service(list_lines)
        .service(remove);
}

/// Pieces that are read ahead of the client.
const AHEAD: usize = 1;

/// Streams the lines of a bundle; a response without the last one is not whole.
///
/// A task reads them, because a client that stops reading must not keep a snapshot: it has a minute for each piece
/// (`ENTENTE_WRITE_SECONDS`), and [`bundles::TIME`] for all of them.
fn streamed(api: &ApiState, mut lines: Lines) -> HttpResponse {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let pause = api.limits.write;
    api.tasks.spawn("bundle", async move {
        let written = timeout(bundles::TIME, async {
            while let Some(text) = lines.next().await? {
                let sent = sender.send_timeout(Some(Bytes::from(text)), pause).await;
                sent.map_err(|_gone| AppError::Unavailable("nobody reads it".to_owned()))?;
            }
            let _nobody_reads = sender.send_timeout(None, pause).await;
            Ok::<(), AppError>(())
        });
        let failure = match written.await {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure.to_string(),
            Err(late) => late.to_string(),
        };
        tracing::warn!(error = failure, "a bundle was not written to its end");
    });
    let body = stream::unfold(receiver, |mut receiver| async move {
        match receiver.recv().await {
            Some(Some(piece)) => Some((Ok(piece), receiver)),
            Some(None) => None,
            None => Some((Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)), receiver)),
        }
    });
    HttpResponse::Ok().content_type("application/x-ndjson").streaming(body)
}

/// Export an intent
///
/// As a bundle: lines of canonical JSON with its log, messages, jobs, money, decisions and children, as far as the caller may
/// read them; the last line is the server's attestation of all of them (DSSE, in-toto). `entente verify` checks it without a
/// server. A response that ends without that line is not whole. An admin also gets the latest imported bundle of another
/// server's intent, byte for byte.
#[utoipa::path(operation_id = "export_intent", tag = "intents",
    responses((status = 200, description = "The bundle", content((String = "application/x-ndjson")))))]
#[get("/intents/{intent_id}/export")]
async fn export(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let intent: IntentId = id("intent", &path)?;
    Ok(streamed(&api, bundles::export(&api.ctx, &asker.caller, intent).await?))
}

/// An imported bundle.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Bundle)]
struct BundleBody {
    /// Its id on this server.
    id: BundleId,
    /// The intent, on the server that wrote the bundle.
    intent_id: IntentId,
    /// Title of the intent.
    title: String,
    /// SHA-256 of the file, hexadecimal.
    sha256: String,
    /// The key of the server that sealed it, as a `did:key`.
    signed_by: String,
    /// When it was written.
    exported_at: WireTime,
    /// The agent that wrote it: the file has the records that this agent could read there.
    exported_by: String,
    /// Size of the file in bytes.
    bytes: i64,
    /// Number of its lines.
    lines: i32,
    /// Agent that imported it.
    imported_by: String,
    /// When it was imported.
    imported_at: WireTime,
}

impl BundleBody {
    fn new(record: BundleRecord, dialect: Dialect) -> Self {
        let BundleRecord { id, intent_id, title, sha256, signed_by, exported_by, bytes, lines, .. } = record;
        Self {
            id,
            intent_id,
            title,
            sha256,
            signed_by,
            exported_at: WireTime::new(record.exported_at, dialect),
            exported_by,
            bytes,
            lines,
            imported_by: record.imported_by,
            imported_at: WireTime::new(record.imported_at, dialect),
        }
    }
}

/// A page of imported bundles.
#[derive(Debug, Serialize, ToSchema)]
struct BundleList {
    /// The bundles, newest first.
    bundles: Vec<BundleBody>,
}

/// A line of an imported bundle.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BundleLine)]
struct LineBody {
    /// Its place in the file, from 1.
    number: i32,
    /// Its kind: `bundle`, `event`, `message` and so on; `seal` for the last.
    kind: String,
    /// Its text, as it is hashed.
    line: String,
}

/// A page of lines.
#[derive(Debug, Serialize, ToSchema)]
struct BundleLines {
    /// The lines, in the order of the file; none at its end.
    lines: Vec<LineBody>,
}

/// Receives a file.
async fn receive(arriving: &mut Import, upload: &mut Upload) -> Result<(), Problem> {
    while let Some(piece) = upload.next().await? {
        arriving.take(&piece).await?;
    }
    Ok(())
}

/// Import a bundle
///
/// Needs the scope `admin`. The body is a file that another server wrote (`GET /intents/{intent_id}/export`). It is
/// verified line by line as it arrives, and refused if a line is changed, missing or out of place. It becomes a record that
/// admins read and export again, byte for byte; not an intent of this server: nobody writes to it, and its jobs do not run.
/// The same file is imported once.
#[utoipa::path(operation_id = "import_bundle", tag = "bundles",
    request_body(content = String, content_type = "application/x-ndjson", description = "The bundle"),
    params(("server_key" = Option<Vec<String>>, Query,
        description = "A key that may have signed the file besides this server's own, as a `did:key`; repeatable")),
    responses((status = 201, description = "The bundle was imported", body = BundleBody),
        (status = 200, description = "The same file was imported before", body = BundleBody)))]
#[post("/bundles")]
async fn import(api: web::Data<ApiState>, asker: Asker, query: Query, mut upload: Upload) -> Reply {
    let read = |text: &str| PublicKey::of_did(text).ok();
    let trusted =
        query.parsed_all("server_key", "a key as a `did:key`, which begins with `did:key:z6Mk`", read)?;
    let mut arriving = imports::begin(&api.ctx, &asker.caller, trusted).await?;
    upload.extend(imports::TIME);
    let imported = match receive(&mut arriving, &mut upload).await {
        Ok(()) => arriving.finish().await.map_err(Problem::from),
        Err(refused) => {
            arriving.abandon().await?;
            Err(refused)
        }
    };
    let (record, is_new) = imported?;
    let body = BundleBody::new(record, asker.dialect);
    if is_new { created(&body) } else { ok(&body) }
}

/// List imported bundles
///
/// Needs the scope `admin`.
#[utoipa::path(operation_id = "list_bundles", tag = "bundles",
    params(("intent_id" = Option<IntentId>, Query, description = "Only bundles of this intent"),
        ("before" = Option<BundleId>, Query, description = "Id of the last bundle of the previous page"), Limit1000),
    responses((status = 200, description = "The bundles", body = BundleList)))]
#[get("/bundles")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let intent = query.parsed("intent_id", "an intent's id", |text| text.parse::<IntentId>().ok())?;
    let before = query.parsed("before", "a bundle's id", |text| text.parse::<BundleId>().ok())?;
    let found = records::list(&api.ctx, &asker.caller, intent, before, query.limit(PAGE)?).await?;
    ok(&BundleList {
        bundles: found.into_iter().map(|record| BundleBody::new(record, asker.dialect)).collect(),
    })
}

/// Get an imported bundle
///
/// Needs the scope `admin`. `…/file` has all of it.
#[utoipa::path(operation_id = "get_bundle", tag = "bundles",
    responses((status = 200, description = "The bundle", body = BundleBody)))]
#[get("/bundles/{bundle_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let bundle: BundleId = id("bundle", &path)?;
    ok(&BundleBody::new(records::get(&api.ctx, &asker.caller, bundle).await?, asker.dialect))
}

/// Get the file of an imported bundle
///
/// Needs the scope `admin`. Byte for byte as it was imported, so that its seal holds.
#[utoipa::path(operation_id = "get_bundle_file", tag = "bundles",
    responses((status = 200, description = "The bundle", content((String = "application/x-ndjson")))))]
#[get("/bundles/{bundle_id}/file")]
async fn file(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let bundle: BundleId = id("bundle", &path)?;
    Ok(streamed(&api, Lines::Imported(Box::new(records::file(&api.ctx, &asker.caller, bundle).await?))))
}

/// List lines of an imported bundle
///
/// Needs the scope `admin`. A page ends early when it is large; the next one follows the last `number`.
#[utoipa::path(operation_id = "list_bundle_lines", tag = "bundles",
    params(("kind" = Option<String>, Query, description = "Only lines of this kind, such as `message`"),
        ("after" = Option<u32>, Query, description = "Number of the last line of the previous page"), Limit1000),
    responses((status = 200, description = "The lines", body = BundleLines)))]
#[get("/bundles/{bundle_id}/lines")]
async fn list_lines(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let bundle: BundleId = id("bundle", &path)?;
    let known = |text: &str| (text == "seal" || Section::parse(text).is_some()).then(|| text.to_owned());
    let kind = query.parsed("kind", "a kind of line, such as `message`, or `seal`", known)?;
    let after = query.parsed("after", "a whole number", |text| text.parse::<i32>().ok())?;
    let filter =
        LineFilter { kind: kind.as_deref(), after: after.unwrap_or_default(), limit: query.limit(PAGE)? };
    let found = records::lines(&api.ctx, &asker.caller, bundle, &filter).await?;
    let shown = |BundleLine { number, kind, line }| LineBody { number, kind, line };
    ok(&BundleLines { lines: found.into_iter().map(shown).collect() })
}

/// Remove an imported bundle
///
/// Needs the scope `admin`.
#[utoipa::path(operation_id = "remove_bundle", tag = "bundles",
    responses((status = 204, description = "The bundle is removed")))]
#[delete("/bundles/{bundle_id}")]
async fn remove(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let bundle: BundleId = id("bundle", &path)?;
    records::remove(&api.ctx, &asker.caller, bundle).await?;
    Ok(HttpResponse::NoContent().finish())
}

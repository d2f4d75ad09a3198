//! The documents by which a server makes itself known to others: open, and good for a while.

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, get, web};
use entente_domain::federation::dispatches::{CALLBACKS, RECEIVE};
use entente_domain::federation::{Visibility, signing};
use entente_kernel::federation;
use serde::Serialize;
use utoipa::ToSchema;

use super::TRUST;
use crate::http::Doors;
use crate::http::error::{Problem, Reply};
use crate::http::routes::Routes;

/// Outside of the API's prefix: the documents that others look for.
pub fn well_known(config: &mut Routes<'_>) {
    config.service(manifest).service(did);
}

/// Seconds for which the documents may be kept: a peer that changes its key names both for longer.
const KEPT: &str = "public, max-age=300";

/// What this server tells other servers of itself.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationManifest)]
struct Manifest {
    /// Its DID; the document is at `/.well-known/did.json`.
    #[schema(example = "did:web:entente.example.com")]
    server_did: String,
    /// Its URL.
    #[schema(example = "https://entente.example.com")]
    server_url: String,
    /// The protocol's version.
    protocol_version: &'static str,
    /// By which policy peers are trusted.
    trust_policy: &'static str,
    /// Who is shown an agent of which the operator has said nothing.
    visibility_default: Visibility,
    /// What is spoken.
    supported_rfcs: [&'static str; 2],
    /// Nobody: who the peers are is not everybody's business. `GET /api/v1/federation/status` lists them.
    peers: Vec<String>,
    /// The Ed25519 key that it signs with, in base64.
    public_key: String,
    /// Where what is.
    endpoints: Endpoints,
}

/// Where what is, below the server's URL.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationEndpoints)]
struct Endpoints {
    /// How federation stands.
    status: &'static str,
    /// Which agents are exported.
    agents: &'static str,
    /// Where our own clients give work to peers.
    dispatch: &'static str,
    /// Where peers give us work.
    receive: &'static str,
    /// Where peers tell how our work goes on.
    callbacks: &'static str,
}

/// How this server makes itself known to others
///
/// Not there unless federation is set up.
#[utoipa::path(operation_id = "federation_manifest", tag = "federation", security(()),
    responses((status = 200, description = "The manifest", body = Manifest)))]
#[get("/.well-known/openintent-federation.json")]
async fn manifest(doors: web::Data<Doors>) -> Reply {
    let federation = federation::set_up(&doors.ctx)?;
    open(&Manifest {
        server_did: federation.did.clone(),
        server_url: federation.url.clone(),
        protocol_version: "0.1",
        trust_policy: TRUST,
        visibility_default: Visibility::Private,
        supported_rfcs: ["RFC-0022", "RFC-0023"],
        peers: Vec::new(),
        public_key: signing::show_key(&doors.ctx.server_keys.signer.public_key()),
        endpoints: Endpoints {
            status: "/api/v1/federation/status",
            agents: "/api/v1/federation/agents",
            dispatch: "/api/v1/federation/dispatch",
            receive: RECEIVE,
            callbacks: CALLBACKS,
        },
    })
}

/// A document of a DID.
#[derive(Debug, Serialize, ToSchema)]
struct DidDocument {
    /// What its words mean.
    #[serde(rename = "@context")]
    context: [&'static str; 2],
    /// The DID.
    #[schema(example = "did:web:entente.example.com")]
    id: String,
    /// The key that it signs with.
    #[serde(rename = "verificationMethod")]
    methods: [DidMethod; 1],
    /// By which of them it proves who it is.
    authentication: [String; 1],
    /// By which of them it signs.
    #[serde(rename = "assertionMethod")]
    assertion: [String; 1],
}

/// A key in the document of a DID.
#[derive(Debug, Serialize, ToSchema)]
struct DidMethod {
    /// Its name.
    id: String,
    /// What it is.
    #[serde(rename = "type")]
    #[schema(example = "Ed25519VerificationKey2020")]
    kind: &'static str,
    /// Whose it is.
    controller: String,
    /// The key as `did:key` writes it.
    #[serde(rename = "publicKeyMultibase")]
    multibase: String,
    /// The key in base64, as the OpenIntent SDK reads it.
    #[serde(rename = "publicKeyBase64")]
    base64: String,
}

/// The document of this server's DID (`did:web`)
///
/// Not there unless federation is set up.
#[utoipa::path(operation_id = "did_document", tag = "federation", security(()),
    responses((status = 200, description = "The document", body = DidDocument)))]
#[get("/.well-known/did.json")]
async fn did(doors: web::Data<Doors>) -> Reply {
    let federation = federation::set_up(&doors.ctx)?;
    let key = doors.ctx.server_keys.signer.public_key();
    let name = format!("{}#key-1", federation.did);
    open(&DidDocument {
        context: ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/ed25519-2020/v1"],
        id: federation.did.clone(),
        methods: [DidMethod {
            id: name.clone(),
            kind: "Ed25519VerificationKey2020",
            controller: federation.did.clone(),
            multibase: key.did().trim_start_matches("did:key:").to_owned(),
            base64: signing::show_key(&key),
        }],
        authentication: [name.clone()],
        assertion: [name],
    })
}

/// A document that everybody may have, and keep for a while.
fn open(body: &impl Serialize) -> Reply {
    let text = serde_json::to_vec(body).map_err(|e| Problem::internal(&e.to_string()))?;
    let mut response = HttpResponse::Ok();
    Ok(response.insert_header((CACHE_CONTROL, KEPT)).content_type("application/json").body(text))
}

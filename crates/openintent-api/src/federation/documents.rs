//! The documents by which a server introduces itself to others: public and cacheable.

use actix_web::{get, web};
use entente_domain::openintent::federation::dispatches::{CALLBACKS, RECEIVE};
use entente_domain::openintent::federation::{Visibility, signing};
use entente_http::documents::brief;
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_openintent::federation;
use serde::Serialize;
use utoipa::ToSchema;

use super::TRUST;
use crate::ApiState;

/// Registers the well-known documents, outside the API's prefix.
pub fn well_known(config: &mut Routes<'_>) {
    config.service(manifest).service(did);
}

/// This server's description for other servers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationManifest)]
struct Manifest {
    /// The server's DID; its document is at `/.well-known/did.json`.
    #[schema(example = "did:web:entente.example.com")]
    server_did: String,
    /// The server's URL.
    #[schema(example = "https://entente.example.com")]
    server_url: String,
    /// The protocol's version.
    protocol_version: &'static str,
    /// The policy for trusting peers.
    trust_policy: &'static str,
    /// The visibility of agents for which the operator configured nothing.
    visibility_default: Visibility,
    /// The supported RFCs.
    supported_rfcs: [&'static str; 2],
    /// Always empty, because the list of peers is not public. `GET /api/v1/federation/status` lists them.
    peers: Vec<String>,
    /// The Ed25519 key that the server signs with, in base64.
    public_key: String,
    /// The paths of the federation endpoints.
    endpoints: Endpoints,
}

/// Paths relative to the server's URL.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FederationEndpoints)]
struct Endpoints {
    /// The status of federation.
    status: &'static str,
    /// The list of exported agents.
    agents: &'static str,
    /// The endpoint where our own clients give work to peers.
    dispatch: &'static str,
    /// The endpoint where peers give us work.
    receive: &'static str,
    /// The endpoint where peers report on our work.
    callbacks: &'static str,
}

/// Get the federation manifest
///
/// Not found unless federation is configured.
#[utoipa::path(operation_id = "federation_manifest", tag = "federation", security(()),
    responses((status = 200, description = "The manifest", body = Manifest),
              (status = 304, description = "Unchanged since the version in `If-None-Match`"),
              (status = 404, description = "`not_found`: federation is off", body = entente_http::error::ProblemBody)))]
#[get("/.well-known/openintent-federation.json")]
async fn manifest(api: web::Data<ApiState>) -> Reply {
    let federation = federation::set_up(&api.ctx)?;
    let document = Manifest {
        server_did: federation.did.clone(),
        server_url: federation.url.clone(),
        protocol_version: "0.1",
        trust_policy: TRUST,
        visibility_default: Visibility::Private,
        supported_rfcs: ["RFC-0022", "RFC-0023"],
        peers: Vec::new(),
        public_key: signing::show_key(&api.ctx.server_keys.signer.public_key()),
        endpoints: Endpoints {
            status: "/api/v1/federation/status",
            agents: "/api/v1/federation/agents",
            dispatch: "/api/v1/federation/dispatch",
            receive: RECEIVE,
            callbacks: CALLBACKS,
        },
    };
    brief(&document)
}

/// A DID document.
#[derive(Debug, Serialize, ToSchema)]
struct DidDocument {
    /// The JSON-LD contexts.
    #[serde(rename = "@context")]
    context: [&'static str; 2],
    /// The DID.
    #[schema(example = "did:web:entente.example.com")]
    id: String,
    /// The key that the server signs with.
    #[serde(rename = "verificationMethod")]
    methods: [DidMethod; 1],
    /// The method for authentication.
    authentication: [String; 1],
    /// The method for signatures.
    #[serde(rename = "assertionMethod")]
    assertion: [String; 1],
}

/// A key in a DID document.
#[derive(Debug, Serialize, ToSchema)]
struct DidMethod {
    /// The key's id.
    id: String,
    /// The key's type.
    #[serde(rename = "type")]
    #[schema(example = "Ed25519VerificationKey2020")]
    kind: &'static str,
    /// The DID of the key's owner.
    controller: String,
    /// The key in the encoding of `did:key`.
    #[serde(rename = "publicKeyMultibase")]
    multibase: String,
    /// The key in base64, as the OpenIntent SDK reads it.
    #[serde(rename = "publicKeyBase64")]
    base64: String,
}

/// Get this server's DID document (`did:web`)
///
/// Not found unless federation is configured.
#[utoipa::path(operation_id = "did_document", tag = "federation", security(()),
    responses((status = 200, description = "The document", body = DidDocument),
              (status = 304, description = "Unchanged since the version in `If-None-Match`"),
              (status = 404, description = "`not_found`: federation is off", body = entente_http::error::ProblemBody)))]
#[get("/.well-known/did.json")]
async fn did(api: web::Data<ApiState>) -> Reply {
    let federation = federation::set_up(&api.ctx)?;
    let key = api.ctx.server_keys.signer.public_key();
    let name = format!("{}#key-1", federation.did);
    let document = DidDocument {
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
    };
    brief(&document)
}

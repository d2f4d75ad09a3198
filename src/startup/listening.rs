//! The HTTP server with or without TLS, and its timeouts.

use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::{Extensions, ServerHandle};
use actix_web::rt::net::TcpStream;
use actix_web::{HttpServer, web};
use entente_api::ApiState;
use entente_api::app::application;
use entente_runtime::metrics::Metrics;
use entente_runtime::sockets;
use entente_runtime::tasks::Tasks;
use entente_runtime::tls::listener::Certificate;

use super::StartError;
use crate::config::Config;

/// Time that an idle connection is kept.
///
/// Clients keep theirs for at least 5 seconds and do not repeat a request that meets a closing one
/// (OI-3.2.4), so the server must be the more patient side.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Time limit for the head of a request: slow senders must not occupy connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Time limit for a handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the certificate, if the configuration names one.
///
/// # Errors
/// It cannot be used.
pub(super) async fn certificate(config: &Config) -> Result<Option<Arc<Certificate>>, StartError> {
    let Some(files) = config.tls.certificate.clone() else { return Ok(None) };
    let certificate = Certificate::read(files).await.map_err(StartError::Certificate)?;
    Ok(Some(Arc::new(certificate)))
}

/// Takes new files of the certificate while the server runs.
pub(super) fn watch(certificate: Option<&Arc<Certificate>>, metrics: &Metrics, tasks: &Tasks) {
    let Some(certificate) = certificate.map(Arc::clone) else { return };
    let (stopping, metrics) = (tasks.stopping().clone(), metrics.clone());
    tasks.keep("certificate", move || {
        let (certificate, stopping) = (Arc::clone(&certificate), stopping.clone());
        let metrics = metrics.clone();
        async move {
            let _stopped = stopping.run_until_cancelled(certificate.watch(&metrics)).await;
        }
    });
}

/// Returns the TCP connection below a connection.
fn tcp(io: &dyn Any) -> Option<&TcpStream> {
    let encrypted = || io.downcast_ref::<TlsStream<TcpStream>>().map(|stream| stream.get_ref().0);
    io.downcast_ref::<TcpStream>().or_else(encrypted)
}

/// Listens on the socket, and answers requests from then on.
///
/// # Errors
/// The socket cannot be used.
pub(super) fn listen(
    config: &Config,
    listener: TcpListener,
    certificate: Option<&Certificate>,
    shared: web::Data<ApiState>,
    tasks: &Tasks,
) -> std::io::Result<(SocketAddr, ServerHandle)> {
    let address = listener.local_addr()?;
    let connections = Arc::clone(&shared.connections);
    let write = config.http.write;
    let server = HttpServer::new(move || application(shared.clone()))
        .workers(config.workers)
        .max_connections(config.max_connections.div_ceil(config.workers))
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_TIMEOUT)
        .shutdown_timeout(config.drain.as_secs())
        // When a worker dies, its kernel closes only its half of the connection. A client that closes one
        // half looks the same, so both count as gone (RFC 9112 §9.6 lets a server close then).
        .h1_allow_half_closed(false)
        .on_connect(move |io, kept: &mut Extensions| {
            kept.insert(connections.open());
            if let Some(stream) = tcp(io) {
                sockets::keep_alive(stream);
                sockets::cut_off(stream, write);
            }
        })
        .tls_handshake_timeout(HANDSHAKE_TIMEOUT)
        .disable_signals();
    let server = match certificate {
        Some(certificate) => {
            let tls = certificate.server().map_err(std::io::Error::other)?;
            server.listen_rustls_0_23(listener, tls)?
        }
        None => server.listen(listener)?,
    };
    let server = server.run();
    let handle = server.handle();
    tasks.vital("http", async move {
        if let Err(e) = server.await {
            tracing::error!(error = %e, "the HTTP server failed");
        }
    });
    Ok((address, handle))
}

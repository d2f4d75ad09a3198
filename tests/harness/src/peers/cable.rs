//! A network cable between two programs on this machine, which a test can unplug. Its connections then stay open and nothing
//! passes, not even their end, as when a switch dies; what is on the way arrives when it is plugged in again. Unlike a dead
//! network, it accepts new connections at once, and is silent then.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub struct Cable {
    /// Address of the near end.
    pub address: SocketAddr,
    plugged: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Cable {
    /// Lays a cable to this address, where somebody may begin to listen later.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (plugged, state) = watch::channel(true);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, target, state.clone()));
            }
        });
        Self { address, plugged, task }
    }

    pub fn unplug(&self) {
        self.plugged.send_replace(false);
    }

    pub fn plug_in(&self) {
        self.plugged.send_replace(true);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until the cable is plugged in. When the test is over, it never is.
async fn whole(plugged: &mut watch::Receiver<bool>) {
    if plugged.wait_for(|plugged| *plugged).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn pass(client: TcpStream, target: SocketAddr, mut plugged: watch::Receiver<bool>) {
    whole(&mut plugged).await;
    let Ok(server) = TcpStream::connect(target).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = forward(from_client, to_server, plugged.clone()) => {}
        () = forward(from_server, to_client, plugged) => {}
    }
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut plugged: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).await.unwrap_or(0);
        whole(&mut plugged).await;
        if read == 0 || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

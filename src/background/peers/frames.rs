//! Frames between servers: who may speak, and how commands and answers travel. Both sides prove that they know the servers'
//! key, and every frame is authenticated with a key of the connection. Frames are not encrypted: the addresses belong
//! into a private network.

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use entente_domain::canonical::sha256;
use entente_domain::identity::signatures::Signer;
use entente_domain::ids::Chance;
use entente_domain::openintent::messages::Message;
use entente_openintent::messages::writer::forwarding::HandedCommand;
use entente_runtime::sockets;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// First bytes of each connection: the protocol and its version.
const HELLO: &[u8; 8] = b"entente1";

/// Text whose signature is the servers' secret: whoever has their key, and nobody else, can make it.
const SECRET: &str = "entente: the secret between the servers of one database";

/// Bytes of a frame at most.
const FRAME: usize = 32 * 1024 * 1024;

/// Bytes of a frame's code.
const CODE: usize = 16;

/// Bytes of a side's contribution to the connection's key.
const NONCE: usize = 32;

/// Time after which a connection ends whose other side reads nothing, for example because its server is stopped.
const UNREAD: Duration = Duration::from_secs(10);

/// Time limit of the greeting.
const GREETING: Duration = Duration::from_secs(2);

/// A command that is handed over.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// Number of the command on its connection.
    #[serde(rename = "n")]
    pub number: u64,
    /// The command.
    #[serde(rename = "c")]
    pub command: HandedCommand,
}

/// The answer to a command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Number of the command.
    #[serde(rename = "n")]
    pub number: u64,
    /// The message, if it was written.
    #[serde(rename = "m")]
    pub message: Option<Message>,
}

/// Secret that only the servers of one database know.
#[derive(Clone)]
pub(crate) struct Secret {
    key: [u8; 32],
    chance: Arc<dyn Chance>,
}

fn broken(why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

fn mac(key: &[u8; 32], parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC fills a shorter key with zeros to the length of a block.
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    parts.iter().for_each(|part| mac.update(part));
    mac
}

fn code(mac: Hmac<Sha256>) -> [u8; CODE] {
    let whole = mac.finalize().into_bytes();
    std::array::from_fn(|index| whole[index])
}

impl Secret {
    /// Derives the secret from the servers' key.
    pub(crate) fn of(signer: &Signer, chance: &Arc<dyn Chance>) -> Self {
        Self { key: sha256(signer.sign(SECRET).to_bytes()), chance: Arc::clone(chance) }
    }

    fn nonce(&self) -> [u8; NONCE] {
        let (one, other) = (self.chance.bits().to_be_bytes(), self.chance.bits().to_be_bytes());
        std::array::from_fn(|index| if index < 16 { one[index] } else { other[index - 16] })
    }

    fn proof(&self, side: &[u8], caller: &[u8; NONCE], taker: &[u8; NONCE]) -> Hmac<Sha256> {
        mac(&self.key, &[side, caller, taker])
    }

    fn halves(
        &self,
        stream: TcpStream,
        is_caller: bool,
        caller: &[u8; NONCE],
        taker: &[u8; NONCE],
    ) -> (Half<OwnedReadHalf>, Half<OwnedWriteHalf>) {
        let key = |from: &[u8]| sha256([&self.key[..], from, caller, taker].concat());
        let (own, theirs) =
            if is_caller { (key(b"caller"), key(b"taker")) } else { (key(b"taker"), key(b"caller")) };
        sockets::keep_alive(&stream);
        sockets::cut_off(&stream, UNREAD);
        let (from, to) = stream.into_split();
        (Half { io: from, key: theirs, count: 0 }, Half { io: to, key: own, count: 0 })
    }

    /// Greets the server that was called.
    pub(super) async fn greet(
        &self,
        mut stream: TcpStream,
    ) -> std::io::Result<(Half<OwnedReadHalf>, Half<OwnedWriteHalf>)> {
        let caller = self.nonce();
        stream.write_all(&[&HELLO[..], &caller].concat()).await?;
        let (mut taker, mut proof) = ([0; NONCE], [0; CODE]);
        stream.read_exact(&mut taker).await?;
        stream.read_exact(&mut proof).await?;
        let unknown = |_wrong| broken("it does not know the servers' key");
        self.proof(b"taker", &caller, &taker).verify_truncated_left(&proof).map_err(unknown)?;
        stream.write_all(&code(self.proof(b"caller", &caller, &taker))).await?;
        Ok(self.halves(stream, true, &caller, &taker))
    }

    /// Takes the greeting of a caller.
    pub(super) async fn welcome(
        &self,
        stream: TcpStream,
    ) -> std::io::Result<(Half<OwnedReadHalf>, Half<OwnedWriteHalf>)> {
        timeout(GREETING, self.welcomed(stream)).await.map_err(|_late| broken("it does not greet"))?
    }

    async fn welcomed(
        &self,
        mut stream: TcpStream,
    ) -> std::io::Result<(Half<OwnedReadHalf>, Half<OwnedWriteHalf>)> {
        stream.set_nodelay(true)?;
        let (mut hello, mut caller, mut proof) = ([0; 8], [0; NONCE], [0; CODE]);
        stream.read_exact(&mut hello).await?;
        if hello != *HELLO {
            return Err(broken("it is no server of Entente"));
        }
        stream.read_exact(&mut caller).await?;
        let taker = self.nonce();
        stream.write_all(&[&taker[..], &code(self.proof(b"taker", &caller, &taker))].concat()).await?;
        stream.read_exact(&mut proof).await?;
        let unknown = |_wrong| broken("it does not know the servers' key");
        self.proof(b"caller", &caller, &taker).verify_truncated_left(&proof).map_err(unknown)?;
        Ok(self.halves(stream, false, &caller, &taker))
    }
}

/// One direction of a connection.
pub(super) struct Half<T> {
    io: T,
    key: [u8; 32],
    /// Number of the next frame, so that none is repeated or left out.
    count: u64,
}

impl<T: AsyncRead + Unpin> Half<T> {
    /// Reads a frame. Not to be cancelled.
    pub(super) async fn read<V: DeserializeOwned>(&mut self) -> std::io::Result<V> {
        let length = usize::try_from(self.io.read_u32().await?).unwrap_or(usize::MAX);
        if length > FRAME {
            return Err(broken("a frame is too long"));
        }
        let (mut told, mut body) = ([0; CODE], vec![0; length]);
        self.io.read_exact(&mut told).await?;
        self.io.read_exact(&mut body).await?;
        let expected = mac(&self.key, &[&self.count.to_be_bytes(), &body]);
        expected.verify_truncated_left(&told).map_err(|_wrong| broken("a frame is not authentic"))?;
        self.count += 1;
        Ok(serde_json::from_slice(&body)?)
    }
}

impl<T: AsyncWrite + Unpin> Half<T> {
    /// Writes a frame. Not to be cancelled.
    pub(super) async fn write<V: Serialize>(&mut self, value: &V) -> std::io::Result<()> {
        let body = serde_json::to_vec(value)?;
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= FRAME);
        let length = length.ok_or_else(|| broken("a frame is too long"))?;
        let code = code(mac(&self.key, &[&self.count.to_be_bytes(), &body]));
        self.count += 1;
        let mut frame = Vec::with_capacity(4 + CODE + body.len());
        frame.extend(length.to_be_bytes());
        frame.extend(code);
        frame.extend(body);
        self.io.write_all(&frame).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    struct Counting(std::sync::atomic::AtomicU64);

    impl Chance for Counting {
        fn bits(&self) -> u128 {
            u128::from(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        }
    }

    fn secret(seed: u8) -> Secret {
        let chance: Arc<dyn Chance> = Arc::new(Counting(std::sync::atomic::AtomicU64::new(0)));
        Secret::of(&Signer::from_seed(&[seed; 32]), &chance)
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let calling = TcpStream::connect(listener.local_addr().unwrap());
        let (called, taken) = tokio::join!(calling, listener.accept());
        (called.unwrap(), taken.unwrap().0)
    }

    #[tokio::test]
    async fn servers_with_one_key_understand_each_other() {
        let (one, other) = pair().await;
        let (mine, theirs) = (secret(1), secret(1));
        let (called, taken) = tokio::join!(mine.greet(one), theirs.welcome(other));
        let ((_, mut to), (mut from, _)) = (called.unwrap(), taken.unwrap());
        for n in 0..3_u32 {
            to.write(&n).await.unwrap();
            assert_eq!(from.read::<u32>().await.unwrap(), n);
        }
        // A frame that is repeated, or forged, is refused.
        to.count -= 1;
        to.write(&9_u32).await.unwrap();
        assert!(from.read::<u32>().await.is_err());
    }

    #[tokio::test]
    async fn a_stranger_is_refused_by_either_side() {
        let (one, other) = pair().await;
        let (mine, theirs) = (secret(1), secret(2));
        let (called, taken) = tokio::join!(mine.greet(one), theirs.welcome(other));
        assert!(called.is_err() && taken.is_err());
    }
}

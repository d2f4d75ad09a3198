//! One private PostgreSQL per run, by the server's own module; one database per test, copied from a migrated template
//! and gone with the test: hundreds of them would fill a small disk.

use std::cell::RefCell;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread::JoinHandle;

use entente_store::{migrate, pool, private::Private};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use tokio_util::sync::CancellationToken;

use super::scratch;

const TEMPLATE: &str = "template_of_tests";

/// The run's PostgreSQL.
pub struct Cluster {
    private: Private,
    next: AtomicU32,
    /// Takes the names of databases that nobody needs any more.
    over: mpsc::Sender<String>,
    /// Removes them.
    tidying: JoinHandle<()>,
}

static CLUSTER: OnceLock<Cluster> = OnceLock::new();

thread_local! {
    /// The databases of the test that runs on this thread, which ends with it.
    static OWN: RefCell<Own> = const { RefCell::new(Own(Vec::new())) };
}

struct Own(Vec<String>);

impl Drop for Own {
    fn drop(&mut self) {
        let over = CLUSTER.get().map(|cluster| &cluster.over);
        // Whether somebody still takes them is looked at by whoever wants the next one.
        self.0.drain(..).for_each(|name| drop(over.map(|over| over.send(name))));
    }
}

/// Removes the databases whose names come in, for as long as the process lives.
fn tidy(options: &PgConnectOptions, names: &mpsc::Receiver<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = options.connect().await.unwrap();
        for name in names {
            let statement = sqlx::AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"));
            sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
        }
    });
}

impl Cluster {
    /// The run's PostgreSQL, started by the first who asks.
    pub fn get() -> &'static Self {
        CLUSTER.get_or_init(|| {
            // On a thread of its own: the caller is inside its own runtime already.
            std::thread::spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(Self::start())
            })
            .join()
            .unwrap()
        })
    }

    async fn start() -> Self {
        let dir = scratch().join(format!("entente-tests-{}", std::process::id()));
        // What tests write need not survive a power cut; the crash tests have a cluster of their own. Each test's database is a copy
        // of the template: compressing that copy for the write-ahead log took more time than anything else in a test.
        let settings = [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("wal_compression", "off"),
            ("max_connections", "1000"),
            ("shared_buffers", "128MB"),
        ];
        let private = Private::start(&dir, None, &settings).await.unwrap();
        watch(&dir);
        let mut connection = private.options().connect().await.unwrap();
        sqlx::raw_sql("CREATE DATABASE template_of_tests").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let template = pool(private.options_for(TEMPLATE), 1, &CancellationToken::new());
        migrate::run(&template).await.unwrap();
        template.close().await;
        let (over, names) = mpsc::channel();
        let options = private.options();
        let tidying = std::thread::spawn(move || tidy(&options, &names));
        Self { private, next: AtomicU32::new(0), over, tidying }
    }

    /// How to connect to a database.
    pub fn options(&self, database: &str) -> PgConnectOptions {
        self.private.options_for(database)
    }

    /// The file of the socket that PostgreSQL listens on.
    pub fn socket(&self) -> PathBuf {
        self.private.options().get_socket().unwrap().join(".s.PGSQL.5432")
    }

    /// How to connect to a database, as a URL.
    pub fn url(&self, database: &str) -> String {
        let url = self.private.url();
        format!("{}/{database}", url.rsplit_once('/').unwrap().0)
    }

    /// A database of the test's own, which is removed when the test's thread ends.
    pub async fn fresh_database(&self) -> String {
        assert!(!self.tidying.is_finished(), "databases are no longer removed; the output says why");
        let name = format!("test_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.private.options().connect().await.unwrap();
        // Two copies of one template at once may disturb each other; PostgreSQL says so, and one tries again.
        for _ in 0..200 {
            let statement =
                sqlx::AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY file_copy"));
            match sqlx::raw_sql(statement).execute(&mut connection).await {
                Ok(_) => {
                    OWN.with_borrow_mut(|own| own.0.push(name.clone()));
                    return name;
                }
                Err(_busy) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
        panic!("no database could be made");
    }
}

/// Has PostgreSQL, and a server process if there is one, stopped and their files removed when this process ends, however
/// it ends: a shell waits for the end of a pipe that only this process holds. It ends a process only if that works where
/// it should: ids are given out again, and another one's process is not to be harmed.
pub fn watch(dir: &std::path::Path) {
    let dir: PathBuf = dir.canonicalize().unwrap();
    let script = format!(
        "cat >/dev/null
         end() {{
           pid=$(head -n 1 \"$2\" 2>/dev/null) && [ -n \"$pid\" ] || return
           [ ! -d /proc/self ] || [ \"$(readlink /proc/$pid/cwd)\" = \"$3\" ] || return
           kill -$1 $pid 2>/dev/null
         }}
         end KILL '{0}/server.pid' '{0}'
         end QUIT '{0}/postgres/postmaster.pid' '{0}/postgres'
         sleep 0.3
         rm -rf '{0}'",
        dir.display()
    );
    let mut shell = Command::new("sh");
    // A group of its own: whoever ends the tests' group does not end what tidies up after them.
    let mut shell = shell.arg("-c").arg(script).stdin(Stdio::piped()).process_group(0).spawn().unwrap();
    let mut pipe = shell.stdin.take().unwrap();
    pipe.flush().unwrap();
    // Held until the process ends.
    std::mem::forget(pipe);
    std::mem::forget(shell);
}

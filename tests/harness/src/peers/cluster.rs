//! One private PostgreSQL per run, started by the server's own module. Each test gets a database copied from
//! a migrated template; it is dropped with the test, because hundreds of them would fill a small disk.

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

use crate::scratch;

const TEMPLATE: &str = "template_of_tests";

/// The run's PostgreSQL.
pub struct Cluster {
    private: Private,
    dir: PathBuf,
    next: AtomicU32,
    /// Receives the names of databases that are no longer needed.
    over: mpsc::Sender<String>,
    /// Thread that drops these databases.
    tidying: JoinHandle<()>,
}

static CLUSTER: OnceLock<Cluster> = OnceLock::new();

thread_local! {
    /// Databases of the test on this thread. They are dropped when the thread ends.
    static OWN: RefCell<Own> = const { RefCell::new(Own(Vec::new())) };
}

struct Own(Vec<String>);

impl Drop for Own {
    fn drop(&mut self) {
        let over = CLUSTER.get().map(|cluster| &cluster.over);
        // Ignores a failed send: the next `fresh_database` checks whether the receiver still runs.
        self.0.drain(..).for_each(|name| drop(over.map(|over| over.send(name))));
    }
}

/// Drops each database named on the channel, as long as the process lives.
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
    /// Returns the run's PostgreSQL; the first call starts it.
    pub fn get() -> &'static Self {
        CLUSTER.get_or_init(|| {
            // On a separate thread, because the caller already runs inside a runtime.
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
        // Test data need not survive a power cut; the crash tests have their own cluster. Each test's
        // database is a copy of the template, and compressing that copy for the write-ahead log took more
        // time than anything else in a test.
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
        Self { private, dir, next: AtomicU32::new(0), over, tidying }
    }

    /// Returns the connect options for a database.
    pub fn options(&self, database: &str) -> PgConnectOptions {
        self.private.options_for(database)
    }

    /// Returns the path of a file that is deleted when the run ends.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the path of PostgreSQL's socket.
    pub fn socket(&self) -> PathBuf {
        self.private.options().get_socket().unwrap().join(".s.PGSQL.5432")
    }

    /// Returns the URL of a database.
    pub fn url(&self, database: &str) -> String {
        let url = self.private.url();
        format!("{}/{database}", url.rsplit_once('/').unwrap().0)
    }

    /// Creates a database for the calling test and returns its name. It is dropped when the test's thread
    /// ends.
    pub async fn fresh_database(&self) -> String {
        assert!(!self.tidying.is_finished(), "databases are no longer removed; the output says why");
        let name = format!("test_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.private.options().connect().await.unwrap();
        // Two concurrent copies of one template may conflict; PostgreSQL then returns an error, and the copy
        // is retried.
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

/// Stops PostgreSQL, and a server process if there is one, and removes their files when this process ends,
/// even if it is killed: a shell waits for the end of a pipe that only this process holds open. The shell
/// kills a process only if its working directory is the expected one, because the system reuses process ids.
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
    // In a separate process group, so that a signal to the tests' group does not end the clean-up.
    let mut shell = shell.arg("-c").arg(script).stdin(Stdio::piped()).process_group(0).spawn().unwrap();
    let mut pipe = shell.stdin.take().unwrap();
    pipe.flush().unwrap();
    // The pipe stays open until the process ends.
    std::mem::forget(pipe);
    std::mem::forget(shell);
}

//! A real PgBouncer in front of the run's PostgreSQL, on the loopback address, with a configuration of the test's.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use entente_store::limits::pooler_settings;
use rustix::process::geteuid;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _};

use crate::Cluster;
use crate::peers::process::{Place, free_address};

/// Upper bound for its start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Places of the program that are not on the path of every user.
const PLACES: [&str; 3] = ["/usr/sbin", "/opt/homebrew/opt/pgbouncer/bin", "/usr/local/opt/pgbouncer/bin"];

/// A running PgBouncer.
pub struct PgBouncer {
    child: Child,
    port: u16,
    /// Whether it carries prepared statements from one connection to another (1.21 and newer).
    pub carries_statements: bool,
    /// Its files, which go when it has ended.
    place: Place,
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    let found = places.find_map(|dir| Some(dir.join("pgbouncer")).filter(|program| program.exists()));
    found.expect("no pgbouncer: `make setup` installs it")
}

/// Whether this version carries prepared statements.
fn carries_statements(program: &PathBuf) -> bool {
    let output = Command::new(program).arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    // "PgBouncer 1.18.0"
    let version = said.split_whitespace().nth(1).unwrap();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (1, 21)
}

impl PgBouncer {
    /// Starts it in this mode; `limited` with time limits for its connections, as a server asks for them.
    pub async fn start(mode: &str, limited: bool) -> Self {
        let (place, program) = (Place::new("pgbouncer"), program());
        let (port, carries_statements) = (free_address().port(), carries_statements(&program));
        let sockets = Cluster::get().options("entente");
        let sockets = sockets.get_socket().unwrap().display();
        let query = if limited { format!(" connect_query='{}'", pooler_settings()) } else { String::new() };
        let statements = if carries_statements { "max_prepared_statements = 200\n" } else { "" };
        let settings = format!(
            "[databases]\n* = host={sockets} port=5432 user=entente{query}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\nmax_client_conn = 500\n\
             default_pool_size = 100\n{statements}"
        );
        let file = place.0.join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        let log = fs::File::create(place.0.join("server.log")).unwrap();
        let mut command = Command::new(program);
        // It refuses to run as root, and the sockets belong to the user that PostgreSQL runs as.
        if geteuid().is_root() {
            let users = fs::read_to_string("/etc/passwd").unwrap();
            let postgres = users.lines().any(|line| line.starts_with("postgres:"));
            command.args(["-u", if postgres { "postgres" } else { "nobody" }]);
        }
        command.arg(&file).current_dir(&place.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        // Ends it if this process is killed.
        fs::write(place.0.join("server.pid"), child.id().to_string()).unwrap();
        let mut bouncer = Self { child, port, carries_statements, place };
        let began = Instant::now();
        while bouncer.options("pgbouncer").connect().await.is_err() {
            let ended = bouncer.child.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "{ended:?}:\n{}", bouncer.place.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bouncer
    }

    /// Returns the connect options for a database behind it.
    pub fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port)
            .username("entente")
            .database(database)
            .ssl_mode(PgSslMode::Disable)
            // It refuses this option of the driver's.
            .extra_float_digits(None)
    }

    /// Returns the URL of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://entente@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Returns the number of clients that are connected to a database through it.
    pub async fn clients(&self, database: &str) -> usize {
        let mut console = self.options("pgbouncer").connect().await.unwrap();
        let rows = console.fetch_all("SHOW CLIENTS").await.unwrap();
        console.close().await.unwrap();
        rows.iter().filter(|row| row.get::<String, _>("database") == database).count()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // At once: a polite signal makes newer versions wait for their clients.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

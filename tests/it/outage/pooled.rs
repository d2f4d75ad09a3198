//! The pool: what is ready to be used again at once, and what is tested before.

use std::time::{Duration, Instant};

use entente_runtime::deadlines::doubtful;
use entente_store::Pool;
use entente_store::confirmations::Confirmations;
use entente_store::pooling::Route;
use futures_util::FutureExt as _;
use sqlx::{AssertSqlSafe, Executor as _};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use entente_harness::Cluster;

async fn pool(connections: u32) -> Pool {
    let database = Cluster::get().fresh_database().await;
    entente_store::pool(Cluster::get().options(&database), connections, &CancellationToken::new())
}

async fn pid(pool: &Pool) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_connection_whose_statement_is_answered_is_free_at_once() {
    let pool = pool(1).await;
    let first = pid(&pool).await;
    let (mut free, began) = (0, Instant::now());
    while free < 3 {
        assert!(began.elapsed() < Duration::from_mins(2), "the process is never without a doubt");
        // Other tests of this process abandon statements; then everything is tested, for five seconds.
        let (doubted, at) = (doubtful(), Instant::now());
        drop(pool.acquire().await.unwrap());
        // No ping in between: whoever asks gets it without waiting for anything.
        match pool.acquire().now_or_never() {
            Some(taken) => {
                drop(taken.unwrap());
                free += 1;
            }
            None if doubted || doubtful() || at.elapsed() > Duration::from_millis(400) => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            None => panic!("it is not ready"),
        }
    }
    assert_eq!(pid(&pool).await, first);
    let rows: Vec<i32> = sqlx::query_scalar("SELECT generate_series(1, 3)").fetch_all(&pool).await.unwrap();
    assert_eq!(rows, [1, 2, 3]);
    pool.close().await;
}

#[tokio::test]
async fn a_transaction_that_is_dropped_is_rolled_back_before_anybody_else_has_its_connection() {
    let pool = pool(1).await;
    pool.execute("CREATE TABLE notes (text text)").await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    tx.execute("INSERT INTO notes VALUES ('dropped')").await.unwrap();
    drop(tx);
    let mut tx = pool.begin().await.unwrap();
    tx.execute("INSERT INTO notes VALUES ('kept')").await.unwrap();
    tx.commit().await.unwrap();
    let notes: Vec<String> = sqlx::query_scalar("SELECT text FROM notes").fetch_all(&pool).await.unwrap();
    assert_eq!(notes, ["kept"]);
    pool.close().await;
}

#[tokio::test]
async fn a_transaction_whose_beginning_is_dropped_takes_nothing_of_the_next_users() {
    let database = Cluster::get().fresh_database().await;
    let open = || entente_store::pool(Cluster::get().options(&database), 1, &CancellationToken::new());
    let (pool, beside) = (open(), open());
    pool.execute("CREATE TABLE notes (n bigint)").await.unwrap();
    for polls in 0..6 {
        let mut begin = Box::pin(pool.begin());
        for _ in 0..polls {
            if futures_util::poll!(&mut begin).is_ready() {
                break;
            }
        }
        drop(begin);
        // Commits by itself, unless it runs in the transaction of somebody who left.
        sqlx::query("INSERT INTO notes VALUES ($1)").bind(polls).execute(&pool).await.unwrap();
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM notes").fetch_one(&beside).await.unwrap();
        assert_eq!(count, polls + 1, "after {polls} polls");
    }
    pool.close().await;
    beside.close().await;
}

#[tokio::test]
async fn what_follows_an_abandoned_statement_gets_its_own_answer() {
    let pool = pool(1).await;
    let mut taken = pool.acquire().await.unwrap();
    let abandoned = timeout(Duration::from_millis(50), taken.execute("SELECT pg_sleep(0.4)")).await;
    assert!(abandoned.is_err());
    drop(taken);
    let answer: i32 = sqlx::query_scalar("SELECT 7").fetch_one(&pool).await.unwrap();
    assert_eq!(answer, 7);
    pool.close().await;
}

#[tokio::test]
async fn a_connection_is_waited_for_and_refused_in_time() {
    let pool = pool(1).await;
    let taken = pool.acquire().await.unwrap();
    let began = Instant::now();
    assert!(matches!(pool.acquire().await, Err(sqlx::Error::PoolTimedOut)));
    assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&began.elapsed()));
    let (next, ()) = tokio::join!(pool.acquire(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(taken);
    });
    drop(next.unwrap());
    pool.close().await;
}

/// Makes a pool of one connection for a database that does not confirm commits: it opens, and is not ready until they are confirmed.
fn slow_pool(database: &str, confirmations: &Confirmations) -> Pool {
    confirmations.confirmed(Instant::now().checked_sub(Duration::from_mins(1)).unwrap());
    let route = Route::from(Cluster::get().options(database)).awaiting(confirmations);
    entente_store::pool(route, 1, &CancellationToken::new())
}

#[tokio::test]
async fn a_pool_that_closes_does_not_wait_for_what_it_opens() {
    let pool = slow_pool(&Cluster::get().fresh_database().await, &Confirmations::default());
    assert!(matches!(pool.acquire().await, Err(sqlx::Error::PoolTimedOut)));
    let began = Instant::now();
    pool.close().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_connection_that_opens_slowly_serves_the_next_user() {
    let (database, confirmations) = (Cluster::get().fresh_database().await, Confirmations::default());
    let pool = slow_pool(&database, &confirmations);
    assert!(matches!(pool.acquire().await, Err(sqlx::Error::PoolTimedOut)));
    let watch = self::pool(1).await;
    let open = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'";
    let opened: i32 = sqlx::query_scalar(open).bind(&database).fetch_one(&watch).await.unwrap();
    confirmations.end();
    assert_eq!(pid(&pool).await, opened);
    pool.close().await;
    watch.close().await;
}

#[tokio::test]
async fn a_listener_has_its_connection_until_it_is_dropped() {
    let pool = pool(2).await;
    // Both connections are open, and ready.
    let (one, two) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    drop((one, two));
    for _ in 0..3 {
        let mut listener = pool.listener().await.unwrap();
        listener.listen("pooled_listener").await.unwrap();
        pool.execute("NOTIFY pooled_listener, 'heard'").await.unwrap();
        assert_eq!(listener.recv().await.unwrap().payload(), "heard");
        let held = pool.acquire().await.unwrap();
        assert!(pool.acquire().now_or_never().is_none(), "the listener has the other one");
        drop(held);
    }
    pool.close().await;
}

#[tokio::test]
async fn a_connection_that_ended_while_it_was_ready_is_replaced() {
    let pool = pool(1).await;
    let first = pid(&pool).await;
    let other = self::pool(1).await;
    // While it rests, longer than a connection is trusted.
    other.execute(AssertSqlSafe(format!("SELECT pg_terminate_backend({first})"))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_ne!(pid(&pool).await, first);
    pool.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_closed_pool_waits_for_what_is_in_use_and_gives_nothing_more() {
    let pool = pool(2).await;
    let (one, two) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    drop(two);
    let closing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close().await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(matches!(pool.acquire().await, Err(sqlx::Error::PoolClosed)));
    assert!(!closing.is_finished(), "one is in use");
    drop(one);
    timeout(Duration::from_secs(5), closing).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_that_ended_in_use_fails_one_statement() {
    let pool = pool(1).await;
    let first = pid(&pool).await;
    let other = self::pool(1).await;
    let ended = AssertSqlSafe(format!("SELECT pg_terminate_backend({first})"));
    sqlx::raw_sql(ended).execute(&other).await.unwrap();
    // At once, while the connection is trusted. As everywhere, the error becomes the server's own.
    let failed = sqlx::raw_sql("SELECT 1").execute(&pool).await;
    let failure = failed.map_err(entente_kernel::AppError::from).err();
    assert!(failure.is_none_or(|failure| failure.is_passing()));
    assert_ne!(pid(&pool).await, first, "it is not used again");
    pool.close().await;
    other.close().await;
}

/// Returns how PostgreSQL compresses a large value that is written through a pool.
async fn compression(options: sqlx::postgres::PgConnectOptions) -> String {
    let pool = entente_store::pool(options, 1, &CancellationToken::new());
    pool.execute("DROP TABLE IF EXISTS texts; CREATE TABLE texts (text text)").await.unwrap();
    pool.execute("INSERT INTO texts VALUES (repeat('x', 5000))").await.unwrap();
    let found = sqlx::query_scalar("SELECT pg_column_compression(text) FROM texts");
    let found = found.fetch_one(&pool).await.unwrap();
    pool.close().await;
    found
}

#[tokio::test]
async fn large_values_are_compressed_with_lz4_unless_somebody_chose_otherwise() {
    let options = Cluster::get().options(&Cluster::get().fresh_database().await);
    assert_eq!(compression(options.clone()).await, "lz4");
    let chosen = options.options([("default_toast_compression", "pglz")]);
    assert_eq!(compression(chosen).await, "pglz");
}

/// Runs work on a thread with a runtime of its own, which ends with it.
async fn elsewhere<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work)
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test]
async fn while_the_threads_end_each_runtime_uses_its_own_connections() {
    let database = Cluster::get().fresh_database().await;
    let leaving = CancellationToken::new();
    let pool = entente_store::pool(Cluster::get().options(&database), 1, &leaving);
    let other = pool.clone();
    let shared = elsewhere(async move { pid(&other).await }).await;
    let in_use = pool.acquire().await.unwrap();
    leaving.cancel();
    // What is in use is waited for.
    assert!(timeout(Duration::from_millis(100), pool.settled()).await.is_err());
    drop(in_use);
    timeout(Duration::from_secs(1), pool.settled()).await.unwrap();
    let own = pid(&pool).await;
    assert_ne!(own, shared);
    // One that is ready for another runtime makes room.
    let other = pool.clone();
    let theirs = elsewhere(async move {
        let (first, second) = (pid(&other).await, pid(&other).await);
        // Other tests of this process abandon statements; then nothing is ready.
        assert!(first == second || doubtful(), "a runtime uses its own again");
        second
    });
    assert_ne!(theirs.await, own);
    assert_ne!(pid(&pool).await, own);
    timeout(Duration::from_secs(1), pool.settled()).await.unwrap();
    pool.close().await;
}

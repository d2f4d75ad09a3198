//! The search by words: what is found, by whom, and that its follower misses nothing and takes nothing in twice.

mod finding;
mod following;

use entente_harness::search::index;
use entente_harness::{Client, Reply, Value, World, json};

/// Searches with a raw query.
pub async fn search(client: &Client, query: &str) -> Reply {
    client.get(&format!("/search?{query}")).await
}

/// Returns the results of a search for words.
pub async fn found(client: &Client, words: &str) -> Vec<Value> {
    let words = words.replace(' ', "%20").replace('"', "%22");
    let answer = search(client, &format!("q={words}&limit=100")).await.ok();
    assert_eq!(answer["next_cursor"], json!(null), "{answer}");
    answer["results"].as_array().unwrap().clone()
}

/// Returns the number of results.
pub async fn count(client: &Client, words: &str) -> usize {
    found(client, words).await.len()
}

/// Returns the number of documents.
pub async fn documents(world: &World) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM search_documents").fetch_one(&world.ctx().pool).await.unwrap()
}

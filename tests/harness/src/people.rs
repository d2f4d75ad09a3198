//! People who log in to the pages, and keys that an operator gives them.

use crate::browser::{Browser, Page};
use crate::{Client, World, json};

/// Creates a person without any key; returns the admin.
pub async fn person(world: &World, id: &str) -> Client {
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": id, "kind": "human" })).await.is(201);
    admin
}

/// Returns a browser with a logged-in person.
pub async fn logged_in(world: &World, id: &str, admin: bool) -> Browser {
    let by = world.admin().await;
    by.post("/principals", json!({ "id": id, "kind": "human" })).await;
    let made = by.post(&format!("/people/{id}/links"), json!({ "admin": admin })).await.is(201);
    let mut browser = Browser::new(world.address);
    let page = browser.post(made["path"].as_str().unwrap(), &[]).await;
    assert_eq!((page.status, page.location.as_str()), (303, "/inbox"), "{}", page.text);
    browser
}

/// Creates `many` links and advances the clock to their expiry.
pub async fn lapsed(world: &World, many: u64) {
    let admin = person(world, "human.ada").await;
    for _ in 0..many {
        admin.post("/people/human.ada/links", json!({ "expires_in": 60 })).await.is(201);
    }
    world.clock.advance(60);
}

pub async fn log_in(browser: &mut Browser, name: &str, password: &str) -> Page {
    browser.post("/login", &[("name", name), ("password", password), ("next", "/dashboard")]).await
}

/// Creates a key for a person as an admin and returns it.
pub async fn given_key(admin: &Client, person: &str) -> String {
    admin.post("/principals", json!({ "id": person, "kind": "human" })).await;
    let made = admin.post(&format!("/principals/{person}/keys"), json!({ "scopes": null })).await.is(201);
    assert_eq!(
        made["record"]["authority"],
        json!({ "basis": "given_key", "let_in_by": "service.bootstrap" })
    );
    made["key"].as_str().unwrap().to_owned()
}

//! The pages of budgets and stops: what is spent, the switch, and the forms that make, change, raise and close budgets.

use entente_harness::browser::Browser;
use entente_harness::people::logged_in;
use entente_harness::{World, json};

#[tokio::test]
async fn an_operator_sees_what_is_spent_and_stops_a_scope() {
    let world = World::start().await;
    let (admin, any) = (world.admin().await, world.any());
    let name = json!({ "scope": "system", "unit": "USD", "limit": 10, "name": "<b>all</b>" });
    admin.post("/budgets", name).await.is(201);
    any.post("/spend/reservations", json!({ "reserve": { "USD": 4 } })).await.is(201);
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/budgets").await;
    assert!(page.text.contains("0 of 10 USD spent, 4 reserved, 6 left"), "{}", page.text);
    assert!(!page.text.contains("<b>all"), "names are text");
    let wrong = eve.act("/stops", "/budgets", &[("scope", "everything"), ("reason", "x")]).await;
    assert!(wrong.status == 422 && wrong.text.contains("team:NAME"), "{}", wrong.text);
    let stopped = eve.act("/stops", "/budgets", &[("scope", "system"), ("reason", "too much")]).await;
    assert_eq!((stopped.status, stopped.location.as_str()), (303, "/budgets"));
    any.post("/spend/reservations", json!({ "reserve": { "USD": 1 } })).await.refused(403, "stopped");
    let page = eve.get("/budgets").await;
    assert!(page.text.contains("too much") && page.text.contains("by human.eve"), "{}", page.text);
    let lift = page.between("action=\"/stops/", "\"");
    assert_eq!(eve.act(&format!("/stops/{lift}"), "/budgets", &[]).await.status, 303);
    any.post("/spend/reservations", json!({ "reserve": { "USD": 1 } })).await.is(201);
    world.end().await;
}

#[tokio::test]
async fn who_is_no_admin_sees_no_switch_and_stops_nothing() {
    let world = World::start().await;
    let mut bob = logged_in(&world, "human.bob", false).await;
    let page = bob.get("/budgets").await;
    assert!(page.status == 200 && !page.text.contains("Stop now"), "{}", page.text);
    // The log-out form has the token.
    let refused = bob.act("/stops", "/budgets", &[("scope", "system"), ("reason", "x")]).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    let foreign =
        bob.from("cross-site").act("/stops", "/budgets", &[("scope", "system"), ("reason", "x")]).await;
    assert!(foreign.status >= 400);
    assert_eq!(world.admin().await.get("/stops").await.ok()["stops"], json!([]));
    world.end().await;
}

#[tokio::test]
async fn open_budgets_are_shown_however_many_are_closed_or_open() {
    let world = World::start().await;
    let closed = "INSERT INTO budgets (id, name, scope, subject, unit, period, time_zone, amount, thresholds, created_by, created_at,
             closed_at, changed_seq)
         SELECT gen_random_uuid(), 'closed ' || n, 'system', '', 'USD', 'total', 'UTC', 1, '[]', 'human.eve', $1, $1, 1
         FROM generate_series(1, 300) n";
    sqlx::query(closed).bind(world.ctx().now()).execute(&world.ctx().pool).await.unwrap();
    let admin = world.admin().await;
    for n in 0..203 {
        let scope = format!("agent:agent.b{n:03}");
        admin.post("/budgets", json!({ "scope": scope, "unit": "USD", "limit": 10 })).await.is(201);
    }
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/budgets").await;
    assert!(!page.text.contains("closed 1"), "a closed budget is not shown");
    assert!(
        page.text.contains("agent:agent.b000 ") && page.text.contains("agent:agent.b199 "),
        "{}",
        page.text
    );
    assert!(!page.text.contains("agent:agent.b200 ") && !page.text.contains("The first budgets"));
    let after = page.between("<a href=\"/budgets?after=", "\"");
    let rest = eve.get(&format!("/budgets?after={after}")).await.text;
    assert!(
        ["b200", "b201", "b202"].iter().all(|one| rest.contains(&format!("agent:agent.{one} "))),
        "{rest}"
    );
    assert!(
        !rest.contains("agent:agent.b199 ")
            && !rest.contains("More budgets")
            && rest.contains("The first budgets")
    );
    assert_eq!(eve.get("/budgets?after=nonsense").await.status, 404);
    world.end().await;
}

#[tokio::test]
async fn old_stops_are_found_and_lifted() {
    let world = World::start().await;
    let admin = world.admin().await;
    for n in 0..203 {
        let scope = format!("agent:agent.s{n:03}");
        admin.post("/stops", json!({ "scope": scope, "reason": "quiet" })).await.is(201);
        // Stops of one instant have no order.
        world.clock.advance(1);
    }
    let mut eve = logged_in(&world, "human.eve", true).await;
    let page = eve.get("/budgets").await;
    assert!(
        page.text.contains("Lift the stop of agent:agent.s202<") && !page.text.contains("agent:agent.s002<")
    );
    let before = page.between("<a href=\"/budgets?before=", "\"");
    let older = format!("/budgets?before={before}");
    let page = eve.get(&older).await;
    assert!(
        page.text.contains("Lift the stop of agent:agent.s000<") && !page.text.contains("Older stops"),
        "{}",
        page.text
    );
    let lift = page.between("action=\"/stops/", "\"");
    let lifted = eve.act(&format!("/stops/{lift}"), &older, &[("before", &before)]).await;
    assert_eq!((lifted.status, &lifted.location), (303, &older), "{}", lifted.text);
    let page = eve.get(&older).await.text;
    assert!(
        !page.contains("agent:agent.s002<") && page.contains("agent:agent.s001<"),
        "the newest of the page was lifted"
    );
    world.end().await;
}

const MADE: [(&str, &str); 11] = [
    ("key", "one press"),
    ("name", "Research <i>per day</i>"),
    ("scope", "agent:agent.client"),
    ("unit", "USD"),
    ("window", "day"),
    ("time_zone", "Europe/Berlin"),
    ("limit", "12.50"),
    ("at1", "80"),
    ("then1", "models"),
    ("whom1", "*-mini, tiny"),
    ("at2", "80 %"),
];
const FOLLOWS: [(&str, &str); 4] =
    [("then2", "ask"), ("whom2", "human.eve"), ("at4", "100"), ("then4", "stop")];

/// Makes the budget of [`MADE`]; returns the path of its page.
async fn make(eve: &mut Browser) -> String {
    let made = eve.act("/budgets", "/budgets", &[MADE.as_slice(), FOLLOWS.as_slice()].concat()).await;
    assert_eq!(made.status, 303, "{}", made.text);
    made.location
}

#[tokio::test]
async fn an_admin_makes_a_budget() {
    let world = World::start().await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let admin = world.admin().await;
    let path = make(&mut eve).await;
    assert_eq!(make(&mut eve).await, path, "pressed twice, it is one budget");
    let stored = admin.get(&path).await.ok();
    assert_eq!(stored["window"], "day");
    assert_eq!((&stored["limit"], &stored["time_zone"]), (&json!(12.5), &json!("Europe/Berlin")));
    let thresholds = json!([
        { "percent": 80, "degrade": { "models": ["*-mini", "tiny"] }, "ask": { "person": "human.eve" } },
        { "percent": 100, "stop": true },
    ]);
    assert_eq!(stored["thresholds"], thresholds);

    // Its page says what follows, and what is reached in this window.
    let shown = eve.get(&path).await.text;
    for text in [
        "80 %",
        "only these models are allowed: *-mini, tiny; human.eve is asked",
        "whom it is for is stopped",
        "Change or close it",
    ] {
        assert!(shown.contains(text), "no {text} in {shown}");
    }
    assert_eq!(shown.matches(">not reached<").count(), 2, "{shown}");
    assert!(!shown.contains("<i>per day"), "a name is text");
    let client = world.any().acting_as("agent.client");
    let reserved = client.post("/spend/reservations", json!({ "reserve": { "USD": 11 } })).await.is(201);
    let settle = format!("/spend/reservations/{}/settle", reserved["reservation_id"].as_str().unwrap());
    client.post(&settle, json!({ "cost": { "USD": 11 } })).await.ok();
    let shown = eve.get(&path).await.text;
    assert!(shown.matches(">reached<").count() == 1 && shown.contains(">not reached<"), "{shown}");
    // At 100 per cent it also counts that a reservation was refused.
    client.post("/spend/reservations", json!({ "reserve": { "USD": 5 } })).await;
    let shown = eve.get(&path).await.text;
    assert_eq!(shown.matches(">reached<").count(), 2, "{shown}");
    world.end().await;
}

#[tokio::test]
async fn a_budget_is_changed_as_far_as_its_form_says_so() {
    let world = World::start().await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let admin = world.admin().await;
    let path = make(&mut eve).await;
    let on = format!("{path}/change");
    let page = eve.get(&on).await;
    for text in ["value=\"12.5\"", "value=\"*-mini, tiny\"", "<option value=\"stop\" selected>"] {
        assert!(page.text.contains(text), "no {text} in {}", page.text);
    }
    // A form that leaves the thresholds as they were does not touch them, whatever they are by now.
    let was = page.between("name=\"thresholds_was\" value=\"", "\"");
    let rows: Vec<(&str, &str)> = FOLLOWS
        .into_iter()
        .chain(MADE.into_iter().skip(7))
        .map(|(name, value)| (name, if value == "80 %" { "80" } else { value }))
        .collect();
    admin.patch(&path, json!({ "thresholds": [] })).await.ok();
    let limit = [
        ("name", "Research"),
        ("name_was", MADE[1].1),
        ("limit", "20"),
        ("limit_was", "12.5"),
        ("thresholds_was", &was),
    ];
    let done = eve.act(&on, &on, &[limit.as_slice(), rows.as_slice()].concat()).await;
    assert_eq!((done.status, &done.location), (303, &path), "{}", done.text);
    let stored = admin.get(&path).await.ok();
    assert_eq!(
        (&stored["name"], &stored["limit"], &stored["thresholds"]),
        (&json!("Research"), &json!(20), &json!([]))
    );
    let one = [
        ("name", "Research"),
        ("name_was", "Research"),
        ("limit", "20"),
        ("limit_was", "20"),
        ("thresholds_was", ""),
        ("at1", "50"),
        ("then1", "tools"),
        ("whom1", "nothing"),
    ];
    assert_eq!(eve.act(&on, &on, &one).await.status, 303);
    assert_eq!(
        admin.get(&path).await.ok()["thresholds"],
        json!([{ "percent": 50, "degrade": { "tools": [] } }])
    );
    let again = eve.get(&on).await.text;
    assert!(again.contains("value=\"nothing\""), "{again}");
    world.end().await;
}

#[tokio::test]
async fn a_budget_is_raised_once_and_closed() {
    let world = World::start().await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let admin = world.admin().await;
    let path = make(&mut eve).await;
    let on = format!("{path}/change");
    for _twice in 0..2 {
        let raised = eve.act(&format!("{path}/raise"), &on, &[("key", "raised"), ("amount", "5")]).await;
        assert_eq!((raised.status, &raised.location), (303, &path), "{}", raised.text);
    }
    assert_eq!(
        admin.get(&path).await.ok()["usage"]["limit"],
        json!(17.5),
        "pressed twice, it is raised once"
    );
    assert_eq!(eve.act(&format!("{path}/close"), &on, &[]).await.status, 303);
    assert!(eve.get(&path).await.text.contains(">closed<"));
    assert!(!eve.get("/budgets").await.text.contains(&path));
    assert_eq!(eve.get(&on).await.status, 422, "a closed budget is not changed");
    world.end().await;
}

#[tokio::test]
async fn what_is_refused_is_still_typed_in() {
    let world = World::start().await;
    let mut eve = logged_in(&world, "human.eve", true).await;
    let admin = world.admin().await;
    let fields = [MADE.as_slice(), FOLLOWS.as_slice()].concat();
    for (name, value, why) in [
        ("scope", "everything", "team:NAME"),
        ("scope", "team:nobody", "team"),
        ("limit", "12,50", "such as 12.50"),
        ("limit", "-1", "from 0 on"),
        ("unit", "US D", "without blanks"),
        ("window", "year", "per hour, day, week or month"),
        ("time_zone", "Mars/Olympus", "time zone"),
        ("at1", "most", "no percentage"),
        ("at1", "2000", "1 to 1000"),
        ("whom1", "", "lacks the models"),
        ("whom2", "", "lacks the person"),
        ("whom4", "human.eve", "Choose what follows"),
    ] {
        let mut said: Vec<(&str, &str)> = fields.iter().copied().filter(|(one, _)| *one != name).collect();
        said.push((name, value));
        let page = eve.act("/budgets", "/budgets", &said).await;
        let told = page.between("role=\"alert\">", "</p>");
        assert!(page.status >= 400 && told.contains(why), "{name}={value}: {} {told}", page.status);
        for (_, kept) in
            said.iter().filter(|(one, _)| !["key", "window", "then1", "then2", "then4", "name"].contains(one))
        {
            assert!(
                page.text.contains(&format!("value=\"{kept}\"")),
                "{name}={value} loses {kept}: {}",
                page.text
            );
        }
    }
    assert_eq!(admin.get("/budgets").await.ok()["budgets"], json!([]));
    let made = admin
        .post("/budgets", json!({ "scope": "system", "unit": "USD", "limit": 1, "name": "all" }))
        .await
        .is(201);
    let path = format!("/budgets/{}", made["id"].as_str().unwrap());
    let on = format!("{path}/change");
    let raised = eve.act(&format!("{path}/raise"), &on, &[("key", "k"), ("amount", "0")]).await;
    assert!(raised.status == 422 && raised.text.contains("name=\"amount\" value=\"0\""), "{}", raised.text);
    let change =
        [("name", " "), ("name_was", "all"), ("limit", "7"), ("limit_was", "1"), ("thresholds_was", "")];
    let refused = eve.act(&on, &on, &change).await;
    assert!(refused.status == 422 && refused.text.contains("name=\"limit\" value=\"7\""), "{}", refused.text);
    let stop = eve.act("/stops", "/budgets", &[("scope", "everything"), ("reason", "too much")]).await;
    assert!(stop.text.contains("value=\"everything\"") && stop.text.contains("value=\"too much\""));
    assert_eq!(admin.get(&path).await.ok()["limit"], json!(1));
    world.end().await;
}

#[tokio::test]
async fn who_is_no_admin_changes_no_budget() {
    let world = World::start().await;
    let admin = world.admin().await;
    let name = json!({ "scope": "principal:human.bob", "unit": "USD", "limit": 1, "name": "Bob's" });
    admin.post("/principals", json!({ "id": "human.bob", "kind": "human" })).await.is(201);
    let made = admin.post("/budgets", name).await.is(201);
    let path = format!("/budgets/{}", made["id"].as_str().unwrap());
    let mut bob = logged_in(&world, "human.bob", false).await;
    let list = bob.get("/budgets").await.text;
    assert!(
        list.contains(&path) && !list.contains("A new budget") && !list.contains("Change or close"),
        "{list}"
    );
    let page = bob.get(&path).await;
    assert!(page.status == 200 && !page.text.contains("Change or close"), "one sees what pays for oneself");
    assert_eq!(bob.get(&format!("{path}/change")).await.status, 403);
    let fields = [MADE.as_slice(), FOLLOWS.as_slice()].concat();
    assert_eq!(bob.act("/budgets", "/budgets", &fields).await.status, 403);
    let change =
        [("name", "x"), ("name_was", "Bob's"), ("limit", "100"), ("limit_was", "1"), ("thresholds_was", "")];
    assert_eq!(bob.act(&format!("{path}/change"), "/budgets", &change).await.status, 403);
    assert_eq!(
        bob.act(&format!("{path}/raise"), "/budgets", &[("key", "k"), ("amount", "5")]).await.status,
        403
    );
    assert_eq!(bob.act(&format!("{path}/close"), "/budgets", &[]).await.status, 403);
    let stored = admin.get(&path).await.ok();
    assert_eq!((&stored["usage"]["limit"], &stored["closed_at"]), (&json!(1), &json!(null)));
    // Somebody whom it does not pay for does not see it.
    let mut ada = logged_in(&world, "human.ada", false).await;
    assert_eq!(ada.get(&path).await.status, 404);
    assert!(!ada.get("/budgets").await.text.contains(&path));
    world.end().await;
}

//! Refused questions: the agent's options after one (binding moment §6.2), and that two concurrent questions are
//! judged one after the other.

use futures_util::future::join_all;

use super::{ask, at, dialogue, free_text, option, question, resolve, told, with};
use entente_harness::mcp::{Era, Mcp};
use entente_harness::{Client, Value, World, json};

/// Returns the same question with another stem and other options.
pub fn other(stem: &str) -> Value {
    let mut asked = question("human.ada");
    asked["binding_moment"]["question"]["stem"] = json!(stem);
    asked["binding_moment"]["question"]["options"] = json!([
        { "label": "Publish the tag", "reasoning": "The registry is ready." },
        { "label": "Hold it back", "reasoning": "Nothing depends on it." },
    ]);
    asked
}

/// Creates a question of the agent and refuses it.
pub async fn refused(agent: &Client, ada: &Client) -> Value {
    let moment = ask(agent, json!({})).await;
    resolve(ada, &moment, dialogue("Who says that it ships at all?")).await.is(200)
}

/// Returns a question as the successor of a refused one.
pub fn instead(veto: &Value, question: Value) -> Value {
    let more = json!({ "supersedes": veto["id"], "objection_response": "The board said so on Friday." });
    with(question, more)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_question_is_deliberated_before_the_next() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let veto = refused(&agent, &ada).await;
    let words = format!("{}/words", at(&veto));
    let next = other("Should the registry have the tag?");
    // Refused without the reference, without an answer to the objection, or before the agent has said anything.
    agent.post("/moments", next.clone()).await.refused(409, "deliberation_required");
    let silent = with(next.clone(), json!({ "supersedes": veto["id"] }));
    agent.post("/moments", silent).await.refused(409, "deliberation_required");
    agent.post("/moments", instead(&veto, next.clone())).await.refused(409, "deliberation_required");
    // The person may speak first; that does not count as the agent's word.
    ada.post(&words, json!({ "text": "Tell me who decided it." })).await.is(200);
    agent.post("/moments", instead(&veto, next.clone())).await.refused(409, "deliberation_required");
    let said = agent.post(&words, json!({ "text": "The board did, on Friday." })).await.is(200);
    let kinds: Vec<&Value> = said["words"].as_array().unwrap().iter().map(|word| &word["kind"]).collect();
    assert_eq!(kinds, ["reply", "deliberation"]);
    assert_eq!(said["state"], "deliberating");
    // The same question is refused, whatever was said and whichever members are omitted.
    for same in [question("human.ada"), instead(&veto, question("human.ada"))] {
        agent.post("/moments", same).await.refused(409, "same_question");
    }
    let made = agent.post("/moments", instead(&veto, next)).await.is(201);
    assert_eq!(made["objection_response"], "The board said so on Friday.");
    let before = agent.get(&at(&veto)).await.ok();
    assert_eq!((&before["state"], &before["superseded_by"]), (&json!("superseded"), &made["id"]));
    assert_eq!(told(&world, "moment.vetoed").await.len(), 1);
    assert_eq!(told(&world, "moment.superseded").await[0]["superseded_by"], made["id"]);
    // Withdrawing the successor does not allow the refused question again.
    agent.post(&format!("{}/withdraw", at(&made)), json!({})).await.is(200);
    agent.post("/moments", question("human.ada")).await.refused(409, "same_question");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_veto_ends_with_an_answer_or_when_it_is_closed() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let veto = refused(&agent, &ada).await;
    agent.post(&format!("{}/withdraw", at(&veto)), json!({})).await.refused(409, "invalid_transition");
    agent.post(&format!("{}/close", at(&veto)), json!({})).await.refused(403, "not_the_principal");
    agent.post(&format!("{}/words", at(&veto)), json!({ "text": "The board." })).await.is(200);
    let next = instead(&veto, other("Should the registry have the tag?"));
    let next = agent.post("/moments", next).await.is(201);
    resolve(&ada, &next, option(1)).await.is(200);
    // The answer to the successor settles the objection, and so the whole chain.
    let again = ask(&agent, json!({})).await;
    resolve(&ada, &again, dialogue("Not this way.")).await.is(200);
    agent.post("/moments", question("human.ada")).await.refused(409, "same_question");
    let closed = ada.post(&format!("{}/close", at(&again)), json!({ "reason": "We talked." })).await.is(200);
    assert_eq!((&closed["state"], &closed["end_reason"]), (&json!("closed"), &json!("We talked.")));
    assert_eq!(told(&world, "moment.closed").await.len(), 1);
    ask(&agent, json!({})).await;
    // Another agent was never blocked, nor is this one with another person.
    let (b, _ben) = (world.agent("agent.b").await, world.human("human.ben").await);
    refused(&b, &ada).await;
    ask(&agent, json!({})).await;
    b.post("/moments", question("human.ben")).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nearly_the_same_is_remarked_and_counted() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let veto = refused(&agent, &ada).await;
    agent.post(&format!("{}/words", at(&veto)), json!({ "text": "The board." })).await.is(200);
    let mut near = question("human.ada");
    near["binding_moment"]["question"]["stem"] = json!("When should release 1.4 ship, then?");
    let near = agent.post("/moments", instead(&veto, near)).await.is(201);
    let lints: Vec<&Value> = near["lints"].as_array().unwrap().iter().map(|lint| &lint["code"]).collect();
    assert!(lints.contains(&&json!("near_duplicate_after_veto")), "{lints:?}");
    let rates = agent.get("/moments/rates").await.ok();
    assert_eq!((&rates[0]["near_duplicates"], &rates[0]["asked"]), (&json!(1), &json!(2)));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn look_alike_letters_do_not_bring_a_refused_question_back() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let veto = refused(&agent, &ada).await;
    agent.post(&format!("{}/words", at(&veto)), json!({ "text": "The board." })).await.is(200);
    let disguises = [
        ("Whеn ѕhоuld rеlеаѕе 1.4 ѕhір?", "Ѕhір nоw"),
        ("WΗΕΝ ЅНОULD RΕLΕАЅЕ 1.4 ЅНІР", "SHІР ΝОW"),
        ("Ｗｈｅｎ ѕhould release 1.4 ship？", "Ｓｈｉｐ nоw"),
        ("When sho\u{200b}uld re\u{2060}lease 1.4 ship?", "Ship\u{200d} now"),
        ("When should release 1.4 s\u{336}h\u{336}i\u{336}p\u{336}?", "Ship n\u{332}ow"),
    ];
    let disguised = |stem: &str, label: &str| {
        let mut asked = question("human.ada");
        asked["binding_moment"]["question"]["stem"] = json!(stem);
        asked["binding_moment"]["question"]["options"][0]["label"] = json!(label);
        asked
    };
    for (stem, label) in disguises {
        for asked in [disguised(stem, label), instead(&veto, disguised(stem, label))] {
            agent.post("/moments", asked).await.refused(409, "same_question");
        }
    }
    // The tool of MCP refuses it too.
    let said = disguised(disguises[0].0, disguises[0].1);
    let mut arguments = said["binding_moment"].clone();
    arguments["principal"] = json!("human.ada");
    Mcp::new(&agent, Era::Handshake).refused("ask_principal", arguments, "same_question").await;
    // A question that waits is not asked a second time in disguise.
    let other_agent = world.agent("agent.b").await;
    other_agent.post("/moments", question("human.ada")).await.is(201);
    other_agent.post("/moments", said).await.refused(409, "same_question");
    // Another question in the same letters is another question.
    let next = instead(&veto, other("Should thе rеgistry hаvе the tag?"));
    agent.post("/moments", next).await.is(201);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_questions_at_once_one_takes_the_place() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let veto = refused(&agent, &ada).await;
    agent.post(&format!("{}/words", at(&veto)), json!({ "text": "The board." })).await.is(200);
    let stems = ["Who owns the tag?", "Is the registry the place for it?", "Shall ada sign it?"];
    // In different logs; they share the refused question's log and the lock of the agent and the person.
    let intent = agent.post("/intents", json!({ "title": "release" })).await.ok()["id"].clone();
    let races = stems.iter().enumerate().map(|(n, stem)| {
        let mut asked = instead(&veto, other(stem));
        if n == 1 {
            asked["intent_id"] = intent.clone();
        }
        let agent = agent.clone();
        async move { agent.post("/moments", asked).await }
    });
    let replies = join_all(races).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    for late in replies.iter().filter(|reply| reply.status != 201) {
        assert_eq!(late.status, 409, "{}", late.text);
    }
    assert_eq!(told(&world, "moment.superseded").await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_for_detail_answers_nothing() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    let words = format!("{}/words", at(&moment));
    // Detail is available on request, not pushed (binding moment §5.4).
    agent.post(&words, json!({ "text": "By the way." })).await.refused(409, "invalid_transition");
    let asked = ada.once("w1").post(&words, json!({ "text": "Who is the third reviewer?" })).await.is(200);
    assert_eq!((&asked["state"], &asked["resolution"]), (&json!("open"), &Value::Null));
    assert_eq!(asked["words"][0]["kind"], "detail_asked");
    let again = ada.once("w1").post(&words, json!({ "text": "Who is the third reviewer?" })).await.is(200);
    assert_eq!(again["words"].as_array().unwrap().len(), 1);
    let given = agent.post(&words, json!({ "text": "Cy, back tomorrow." })).await.is(200);
    assert_eq!(given["words"][1]["kind"], "detail");
    assert_eq!(given["words"][1]["author"], "agent.a");
    assert_eq!(told(&world, "moment.word").await.len(), 2);
    resolve(&ada, &moment, free_text("Wait for Cy.")).await.is(200);
    ada.post(&words, json!({ "text": "And then?" })).await.refused(409, "moment_not_open");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_may_refuse_its_own_question() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let text = "Two findings contradict each other; may I look on?";
    let ask = json!({ "principal_id": "human.ada", "text": text });
    let made = agent.once("d1").post("/moments/deliberations", ask.clone()).await.is(201);
    assert_eq!(agent.once("d1").post("/moments/deliberations", ask).await.is(200)["id"], made["id"]);
    assert_eq!((&made["state"], &made["binding_moment"]), (&json!("deliberating"), &Value::Null));
    assert_eq!(made["words"][0]["text"], text);
    let inbox = ada.get("/moments/inbox").await.ok();
    assert_eq!(inbox["moments"][0]["id"], made["id"]);
    ada.post(&format!("{}/words", at(&made)), json!({ "text": "Yes." })).await.is(200);
    resolve(&ada, &json!({ "id": made["id"], "envelope_digest": "sha256:x" }), option(0))
        .await
        .refused(409, "moment_not_open");
    agent.post(&format!("{}/withdraw", at(&made)), json!({ "reason": "settled" })).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_objection_is_answered_however_much_was_said_before() {
    let world = World::start().await;
    let (agent, ada) = (world.agent("agent.a").await, world.human("human.ada").await);
    let moment = ask(&agent, json!({})).await;
    let words = format!("{}/words", at(&moment));
    ada.post(&words, json!({ "text": "Who?" })).await.is(200);
    // The maximum number of words while the question is open.
    let text = "INSERT INTO moment_words SELECT moment_id, s, author, kind, text, said_at
                FROM moment_words, generate_series(2, 200) s";
    sqlx::query(text).execute(&world.ctx().pool).await.unwrap();
    agent.post(&words, json!({ "text": "The board." })).await.refused(413, "too_large");
    resolve(&ada, &moment, dialogue("Not this way.")).await.is(200);
    let said = agent.post(&words, json!({ "text": "Then which?" })).await.is(200);
    assert_eq!(said["words_count"], 201);
    agent.post(&words, json!({ "text": "And when?" })).await.refused(413, "too_large");
    ada.post(&words, json!({ "text": "Never." })).await.refused(413, "too_large");
    agent.post("/moments", instead(&moment, other("Should the registry have the tag?"))).await.is(201);
    world.end().await;
}

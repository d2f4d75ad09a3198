//! Sample question in the developer's inbox (`entente dev`), so that the first page shows how questions look.
//! It is asked once, in the same way as an agent asks.

use entente_bridges::Ctx;
use entente_domain::moments::MomentAsk;
use entente_kernel::identity::{authentication, people};
use entente_kernel::{Caller, Outcome};
use entente_moments as moments;
use entente_moments::MomentFilter;
use serde_json::{Value, json};

/// The agent that asks.
const GUIDE: &str = "agent.guide";

/// Asks the question, with a key that may act as any agent, unless the developer was ever asked anything.
pub(super) async fn ask(ctx: &Ctx, key: &str) -> Outcome<()> {
    let grant = authentication::authenticate(ctx, key, None).await?;
    let caller = Caller::new(grant, Some(GUIDE), ctx.now())?;
    let filter =
        MomentFilter { principal: Some(people::DEVELOPER.to_owned()), limit: 1, ..MomentFilter::default() };
    let (before, more) = moments::list(&ctx.moments, &caller, &filter).await?;
    if before.is_empty() && more.is_none() {
        let principal_id = people::DEVELOPER.to_owned();
        let ask = MomentAsk { agent_id: GUIDE.to_owned(), principal_id, ..MomentAsk::default() };
        moments::emit(&ctx.moments, &caller, &question(), ask, None).await?;
    }
    Ok(())
}

fn question() -> Value {
    json!({
        "synopsis": "Let your first agent in over MCP.",
        "findings": [
            "Nobody waits for this answer: it is here so that you see how a question looks.",
            "Only you can answer it; the agent that asked cannot, whatever its key may do.",
            "What nobody answers lapses, and nothing is approved by that.",
        ],
        "recommendations": ["Give an agent this server's URL and a key.", "Watch it on the dashboard."],
        "offer": "Ask for detail: in earnest the agent would answer here.",
        "question": {
            "stem": "Through which door does your first agent come?",
            "options": [
                { "label": "MCP at /mcp", "reasoning": "Most agents speak it already." },
                { "label": "REST under /api/v1", "reasoning": "You write the client; /docs has every route." },
                { "label": "ARCP at /arcp", "reasoning": "It runs jobs for others, under a budget." },
            ],
            "recommended_idx": 0,
            "hatches": { "free_text": true, "dialogue": true },
        },
        "meta": { "decision_class": "welcome" },
    })
}

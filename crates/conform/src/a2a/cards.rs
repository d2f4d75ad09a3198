//! The agent card (A2A §4.4 and §8).

use serde_json::json;

use super::{CARD, card, interface_url};
use crate::check::checks;
use crate::finding::{Outcome, ensure, list, members, same, text};
use crate::site::Site;

checks! {
    "A2A §8.2", Must, card_is_there, "The agent's card is at `/.well-known/agent-card.json`, as JSON.";
    "A2A §4.4.1", Must, card_has_its_members, "The card has a name, a description, a version, interfaces, capabilities, modes and skills.";
    "A2A §4.4.6", Must, interfaces_have_bindings, "Each interface has an absolute URL, a binding and a version.";
    "A2A §4.4.5", Must, skills_have_their_members, "Each skill has an id, a name, a description and tags.";
    "A2A §4.4.1", Must, modes_are_media_types, "Input and output modes are media types.";
    "A2A §4.4.3", Must, capabilities_are_booleans, "Capabilities are booleans.";
    "A2A §8.6", Should, card_can_be_cached, "The card says how long it may be kept.";
}

async fn card_is_there(site: &Site) -> Outcome {
    let answer = site.get(CARD).send().await?;
    let media = answer.media.clone();
    ensure(answer.ok()?.is_object() && media.contains("json"), "an object, as JSON", media)
}

async fn card_has_its_members(site: &Site) -> Outcome {
    let card = card(site).await?;
    members(
        &card,
        &["supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"],
    )?;
    for pointer in ["/name", "/description", "/version"] {
        text(&card, pointer)?;
    }
    Ok(())
}

async fn interfaces_have_bindings(site: &Site) -> Outcome {
    let card = card(site).await?;
    let interfaces = list(&card["supportedInterfaces"])?;
    ensure(!interfaces.is_empty(), "at least one interface", &card["supportedInterfaces"])?;
    for interface in interfaces {
        interface_url(interface)?;
        text(interface, "/protocolBinding")?;
        text(interface, "/protocolVersion")?;
    }
    Ok(())
}

async fn skills_have_their_members(site: &Site) -> Outcome {
    let card = card(site).await?;
    for skill in list(&card["skills"])? {
        for pointer in ["/id", "/name", "/description"] {
            text(skill, pointer)?;
        }
        list(&skill["tags"])?;
    }
    Ok(())
}

async fn modes_are_media_types(site: &Site) -> Outcome {
    let card = card(site).await?;
    for name in ["defaultInputModes", "defaultOutputModes"] {
        let modes = list(&card[name])?;
        let are_media = modes.iter().all(|mode| mode.as_str().is_some_and(|mode| mode.contains('/')));
        ensure(are_media && !modes.is_empty(), format!("media types in `{name}`"), &card[name])?;
    }
    Ok(())
}

async fn capabilities_are_booleans(site: &Site) -> Outcome {
    let card = card(site).await?;
    for name in ["streaming", "pushNotifications", "extendedAgentCard"] {
        if let Some(value) = card["capabilities"].get(name) {
            ensure(value.is_boolean(), format!("`{name}` as a boolean"), &card["capabilities"])?;
        }
    }
    ensure(card["capabilities"].is_object(), "`capabilities` that are an object", &card)
}

async fn card_can_be_cached(site: &Site) -> Outcome {
    let response = site.get(CARD).open().await?;
    let has = |name: &str| response.headers().contains_key(name);
    same(&json!({ "cached": has("cache-control") || has("etag") }), "/cached", true)
}

//! Proofs on messages and posted events (RFC-0018, RFC-0021): checked before they reach the writers, so that one without a
//! proof costs no look-up. This file only reads.

use std::collections::BTreeSet;

use entente_domain::identity::identities::Identity;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::log::events::Draft as EventDraft;
use entente_domain::log::proofs::{is_checked, judge, judge_event};
use entente_domain::openintent::messages::Draft;
use entente_domain::openintent::messages::proofs::{in_metadata, of_message, readable};
use entente_domain::refusal::{Code, Refusal};
use serde_json::Value;

use crate::identity::identities;
use crate::{Ctx, Outcome};

/// Checks the proofs in the metadata of these messages and returns a refusal or `None` for each, in order.
///
/// A proof is refused if it is malformed, or if the sender has an identity that it does not match; in strict mode
/// also if it cannot be checked. The writer returns the refusal, because a repeated request, and a channel that the
/// sender cannot see, are answered first.
///
/// # Errors
/// Returns database errors.
pub async fn objections(
    ctx: &Ctx,
    channel_id: ChannelId,
    drafts: &[&Draft],
) -> Outcome<Vec<Option<Refusal>>> {
    let proofs: Vec<_> = drafts.iter().map(|draft| in_metadata(draft.metadata.as_ref())).collect();
    let signed =
        drafts.iter().zip(&proofs).filter(|(_, proof)| matches!(proof, Ok(Some(proof)) if is_checked(proof)));
    let senders: BTreeSet<&str> = signed.map(|(draft, _)| draft.sender.as_str()).collect();
    let mut known = Vec::new();
    if !senders.is_empty() {
        let senders: Vec<&str> = senders.into_iter().collect();
        known = identities::all(&mut *ctx.pool.acquire().await?, &senders).await?;
    }
    let objection = |(draft, proof): (&&Draft, Result<Option<Value>, Refusal>)| {
        let known = known.iter().find(|identity| identity.agent_id == draft.sender);
        let proof = match proof {
            Ok(proof) => proof?,
            Err(why) => return Some(why),
        };
        check(ctx, channel_id, draft, &proof, known).err()
    };
    Ok(drafts.iter().zip(proofs).map(objection).collect())
}

/// Checks the proof of one message, as [`objections`] does.
///
/// # Errors
/// As [`objections`].
pub async fn objection(ctx: &Ctx, channel_id: ChannelId, draft: &Draft) -> Outcome<Option<Refusal>> {
    Ok(objections(ctx, channel_id, &[draft]).await?.pop().flatten())
}

/// Checks the proof on a client's event, and marks the draft as verified or not. Returns the refusal for the writer, as
/// [`objections`] does.
///
/// # Errors
/// Returns database errors.
pub async fn of_event(ctx: &Ctx, intent_id: IntentId, draft: &mut EventDraft) -> Outcome<Option<Refusal>> {
    if draft.proof.is_none() {
        return Ok(None);
    }
    let known = identities::load(&mut *ctx.pool.acquire().await?, &draft.actor).await?;
    match judge_event(intent_id, draft, known.as_ref(), ctx.now(), ctx.settings.strict) {
        Ok(verified) => draft.proof_verified = verified,
        Err(refusal) => return Ok(Some(refusal)),
    }
    Ok(None)
}

fn check(
    ctx: &Ctx,
    channel_id: ChannelId,
    draft: &Draft,
    proof: &Value,
    known: Option<&Identity>,
) -> Result<(), Refusal> {
    let strict = ctx.settings.strict;
    if !strict && (known.is_none() || !is_checked(proof)) {
        return Ok(());
    }
    let form = of_message(channel_id, draft, &readable(&draft.payload)?, proof);
    judge(&draft.sender, proof, &form, known, ctx.now(), strict).map(drop)
}

/// Refuses a proof on a message whose client does not know the channel's id, because the signature covers that id.
///
/// # Errors
/// Fails if the sender has an identity and the proof is of the type that is checked.
pub async fn refuse_unplaced(ctx: &Ctx, draft: &Draft) -> Outcome<()> {
    let Some(proof) = in_metadata(draft.metadata.as_ref())? else { return Ok(()) };
    if !is_checked(&proof) {
        return Ok(());
    }
    let mut connection = ctx.pool.acquire().await?;
    if identities::load(&mut connection, &draft.sender).await?.is_none() {
        return Ok(());
    }
    let message = "A proof names the channel by its id. Send the message to /channels/{channel_id}/messages.";
    Err(Refusal::field(Code::BadProof, "proof", "channel_id", message).into())
}

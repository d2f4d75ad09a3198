//! The proofs on messages (RFC-0018, RFC-0021): looked at before a message is handed to the writers, so that one without a
//! proof costs no look-up. Those on events are checked by `events.rs`. Only reads.

use entente_core::ids::ChannelId;
use entente_core::messages::Draft;
use entente_core::proofs::{in_metadata, is_checked, judge, of_message, readable};
use entente_core::refusal::{Code, Refusal};

use super::{AppError, Ctx, Outcome, identities};

/// Checks the proof in a message's metadata, if there is one; answers with what is wrong with it: the sender has an
/// identity, and the proof is not its; in strict mode also one that cannot be checked. It is for the writer to say so: a
/// retry of what was done, and a channel that is not there for the sender, come first.
///
/// # Errors
/// The database.
pub async fn objection(ctx: &Ctx, channel_id: ChannelId, draft: &Draft) -> Outcome<Option<Refusal>> {
    match check(ctx, channel_id, draft).await {
        Ok(()) => Ok(None),
        Err(AppError::Refused(why)) => Ok(Some(why)),
        Err(failure) => Err(failure),
    }
}

async fn check(ctx: &Ctx, channel_id: ChannelId, draft: &Draft) -> Outcome<()> {
    let Some(proof) = in_metadata(draft.metadata.as_ref())? else { return Ok(()) };
    if !is_checked(&proof) && !ctx.settings.strict {
        return Ok(());
    }
    let mut connection = ctx.pool.acquire().await?;
    let known = identities::load(&mut connection, &draft.sender).await?;
    drop(connection);
    if known.is_none() && !ctx.settings.strict {
        return Ok(());
    }
    let form = of_message(channel_id, draft, &readable(&draft.payload)?, &proof);
    judge(&draft.sender, &proof, &form, known.as_ref(), ctx.now(), ctx.settings.strict)?;
    Ok(())
}

/// Refuses a proof on a message whose channel the client does not know by its id, which is signed.
///
/// # Errors
/// The sender has an identity, and the proof is of the type that is checked.
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

//! Actions of a person on a moment's page: answering in one of the three ways, asking for detail, replying,
//! closing a deliberation. Each is a form; a refusal is shown on the same page, and no entered text is lost.

use actix_web::{HttpResponse, web};
use entente_domain::ids::MomentId;
use entente_domain::moments::Resolution;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use entente_moments as moments;
use entente_moments::MomentView;
use serde::Deserialize;

use super::guard::{Form, PageResult, Visitor, concluded};
use super::inbox::{Draft, after, moment_id};
use super::see;
use crate::ApiState;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/inbox/{id}/answer", web::post().to(answer))
        .route("/inbox/{id}/word", web::post().to(word))
        .route("/inbox/{id}/close", web::post().to(close))
        .route("/inbox/{id}/seen", web::post().to(seen));
}

/// An answer, as submitted by the form.
#[derive(Deserialize)]
struct AnswerForm {
    kind: String,
    digest: String,
    option: Option<usize>,
    answer: Option<String>,
    objection: Option<String>,
}

impl AnswerForm {
    fn resolution(&self) -> Result<Resolution, Refusal> {
        let missing =
            |what: &str| Refusal::new(Code::InvalidRequest, format!("{what} Nothing was answered."));
        match self.kind.as_str() {
            "option" => match self.option {
                Some(option_idx) => Ok(Resolution::Option { option_idx }),
                None => Err(missing("Choose one of the options first.")),
            },
            "free_text" => Ok(Resolution::FreeText { answer: lines(self.answer.as_ref()) }),
            "dialogue" => Ok(Resolution::Dialogue { objection: lines(self.objection.as_ref()) }),
            _ => Err(missing("The form says no kind of answer.")),
        }
    }
}

/// Returns a text with normalised line ends, because browsers submit CRLF.
fn lines(text: Option<&String>) -> String {
    text.map(|text| text.replace("\r\n", "\n").trim().to_owned()).unwrap_or_default()
}

async fn answer(api: web::Data<ApiState>, path: web::Path<String>, form: Form<AnswerForm>) -> PageResult {
    let id = moment_id(&path)?;
    let Form { visitor, fields } = form;
    let draft = Draft {
        answer: lines(fields.answer.as_ref()),
        objection: lines(fields.objection.as_ref()),
        text: String::new(),
    };
    let done = match fields.resolution() {
        Ok(resolution) => {
            moments::resolve(&api.ctx.moments, &visitor.caller, id, &fields.digest, resolution, None).await
        }
        Err(refusal) => Err(refusal.into()),
    };
    conclude(&api, &visitor, id, done, draft).await
}

#[derive(Deserialize)]
struct Word {
    text: Option<String>,
}

async fn word(api: web::Data<ApiState>, path: web::Path<String>, form: Form<Word>) -> PageResult {
    let id = moment_id(&path)?;
    let text = lines(form.fields.text.as_ref());
    let done = moments::word(&api.ctx.moments, &form.visitor.caller, id, &text, None).await;
    conclude(&api, &form.visitor, id, done, Draft { text, ..Draft::default() }).await
}

#[derive(Deserialize)]
struct Nothing {}

async fn close(api: web::Data<ApiState>, path: web::Path<String>, form: Form<Nothing>) -> PageResult {
    let id = moment_id(&path)?;
    let done = moments::close(&api.ctx.moments, &form.visitor.caller, id, None).await;
    conclude(&api, &form.visitor, id, done, Draft::default()).await
}

/// Records that the person has viewed the question; the script sends this, because no GET changes state.
async fn seen(api: web::Data<ApiState>, path: web::Path<String>, form: Form<Nothing>) -> PageResult {
    let id = moment_id(&path)?;
    moments::view(&api.ctx.moments, &form.visitor.caller, id).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Redirects to the moment's page; after a refusal, renders the page with the reason.
async fn conclude(
    api: &ApiState,
    visitor: &Visitor,
    id: MomentId,
    done: Outcome<MomentView>,
    draft: Draft,
) -> PageResult {
    let Err(refused) = concluded(done)? else {
        return Ok(see(&format!("/inbox/{id}")).finish());
    };
    // A failed attempt reveals nothing: reading the moment requires access to it.
    let shown = moments::get(&api.ctx.moments, &visitor.caller, id).await?;
    Ok(after(visitor, shown, api.ctx.now(), refused.status, refused.message, draft))
}

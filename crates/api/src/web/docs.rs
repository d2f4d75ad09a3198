//! The documentation of the API: at `/docs` an introduction and all operations by group, with a filter; each leads into Swagger UI,
//! which shows one group's part of the OpenAPI document. Everything comes from the binary, and needs no login.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use askama::Template;
use entente_domain::refusal::Refusal;
use entente_http::documents;
use entente_http::error::{Problem, Reply};
use utoipa_swagger_ui::{Config, Url};

use super::shell::Shell;
use super::{POLICY, dressed_by};
use crate::openapi::{Collected, Group, INTRODUCTION};

/// Content security policy of Swagger UI: that of the server's own pages, except that its files bring inline
/// styles and `data:` images.
const SWAGGER_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                              connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Entity tags of the files that were served, by their names: at most as many as there are embedded files, of which
/// the largest has a megabyte.
static TAGS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    for path in ["/docs", "/docs/"] {
        config.route(path, web::get().to(start));
    }
    config.route("/docs/groups/{group}.json", web::get().to(part));
    config.route("/docs/api/{file:.*}", web::get().to(swagger));
}

/// The start page.
#[derive(Template)]
#[template(path = "docs.html")]
struct StartPage<'a> {
    shell: Shell,
    introduction: Vec<Block<'a>>,
    groups: &'a [Group],
    /// Number of operations.
    count: usize,
}

/// A block of the introduction.
#[derive(Debug, PartialEq, Eq)]
enum Block<'a> {
    Heading(&'a str),
    Paragraph(Vec<Piece<'a>>),
}

/// A piece of a paragraph.
#[derive(Debug, PartialEq, Eq)]
struct Piece<'a> {
    text: &'a str,
    is_code: bool,
}

/// Reads the introduction, which has headings, paragraphs and code in them, and no more of Markdown.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let blocks = text.split("\n\n").map(str::trim).filter(|block| !block.is_empty());
    let block = |block| match str::strip_prefix(block, "## ") {
        Some(heading) => Block::Heading(heading),
        None => Block::Paragraph(
            block
                .split('`')
                .enumerate()
                .map(|(n, text)| Piece { text, is_code: n % 2 == 1 })
                .filter(|piece| !piece.text.is_empty())
                .collect(),
        ),
    };
    blocks.map(block).collect()
}

async fn start(document: web::Data<Collected>) -> Reply {
    let groups = document.groups();
    let page = StartPage {
        shell: Shell::plain("The API"),
        introduction: blocks(INTRODUCTION),
        groups,
        count: groups.iter().map(|group| group.operations.len()).sum(),
    };
    let text = page.render().map_err(|e| Problem::internal(&e.to_string()))?;
    let tag = documents::tag(text.as_bytes());
    let response = dressed_by(StatusCode::OK, POLICY);
    Ok(documents::document(response, "text/html; charset=utf-8", documents::PUBLIC, &tag, text))
}

async fn part(request: HttpRequest, document: web::Data<Collected>) -> Reply {
    let name = request.match_info().query("group");
    let group = document.groups().iter().find(|group| group.name == name);
    let group = group.ok_or_else(|| Refusal::not_found("group of operations"))?;
    let content = group.json.as_str();
    Ok(documents::document(HttpResponse::Ok(), "application/json", documents::PUBLIC, &group.tag, content))
}

/// Settings of Swagger UI: a part of the document for each group, as small as a browser shows at once.
fn settings(groups: &'static [Group]) -> Config<'static> {
    let parts = groups.iter().map(|group| Url::new(&group.name, &group.path));
    Config::new(parts)
        .doc_expansion("list")
        .default_models_expand_depth(-1)
        .filter(true)
        .deep_linking(true)
        .display_request_duration(true)
}

async fn swagger(request: HttpRequest, document: web::Data<Collected>) -> Reply {
    let document: Collected = *document.get_ref();
    let file = request.match_info().query("file");
    match utoipa_swagger_ui::serve(file, Arc::new(settings(document.groups()))) {
        Ok(Some(found)) => {
            let tag = tag(file, &found.bytes);
            let (response, content) = (dressed_by(StatusCode::OK, SWAGGER_POLICY), found.bytes.into_owned());
            Ok(documents::document(response, &found.content_type, documents::PUBLIC, &tag, content))
        }
        Ok(None) => Err(Refusal::not_found("page").into()),
        Err(e) => Err(Problem::internal(&e.to_string())),
    }
}

/// Returns the entity tag of a file, which is computed once.
fn tag(file: &str, content: &[u8]) -> String {
    let mut tags = TAGS.lock().unwrap_or_else(PoisonError::into_inner);
    tags.entry(file.to_owned()).or_insert_with(|| documents::tag(content)).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_paragraphs_and_code_are_read() {
        let code = |text| Piece { text, is_code: true };
        let plain = |text| Piece { text, is_code: false };
        let read = blocks("Send `a` or\n`b`.\n\n## Keys\n\nNone.\n");
        let expected = [
            Block::Paragraph(vec![plain("Send "), code("a"), plain(" or\n"), code("b"), plain(".")]),
            Block::Heading("Keys"),
            Block::Paragraph(vec![plain("None.")]),
        ];
        assert_eq!(read, expected);
        let whole = blocks(INTRODUCTION);
        assert!(whole.iter().filter(|block| matches!(block, Block::Heading(_))).count() >= 6);
        let is_plain = |text: &str| !text.contains(['#', '*', '[', '<']);
        assert!(whole.iter().all(|block| match block {
            Block::Heading(text) => is_plain(text),
            Block::Paragraph(pieces) => pieces.iter().all(|piece| piece.is_code || is_plain(piece.text)),
        }));
    }
}

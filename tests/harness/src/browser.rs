//! A headless browser without scripts: it keeps its cookie and submits forms.

use std::net::SocketAddr;

use crate::http;

/// A headless browser: it keeps its cookie, and sends the site that its forms come from.
pub struct Browser {
    http: reqwest::Client,
    base: String,
    site: String,
    host: Option<String>,
    /// Its login cookie.
    pub cookie: Option<String>,
}

/// A response to the browser.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub text: String,
    /// The `Location` header.
    pub location: String,
    /// The `Set-Cookie` header.
    pub cookie: String,
    pub retry_after: u64,
    pub headers: reqwest::header::HeaderMap,
}

impl Page {
    /// Returns the text between two others.
    pub fn between(&self, from: &str, to: &str) -> String {
        let rest = self.text.split_once(from).unwrap_or_else(|| panic!("no `{from}` in {}", self.text)).1;
        rest.split_once(to).unwrap().0.trim().to_owned()
    }

    /// Returns a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Browser {
    pub fn new(address: SocketAddr) -> Self {
        let (base, site) = (format!("http://{address}"), "same-origin".to_owned());
        Self { http: http(), base, site, host: None, cookie: None }
    }

    /// Sets the site of the browser's forms: another site, or this one.
    pub fn from(&mut self, site: &str) -> &mut Self {
        site.clone_into(&mut self.site);
        self
    }

    /// Makes the browser address the server by another host name.
    pub fn called(self, host: &str) -> Self {
        Self { host: Some(host.to_owned()), ..self }
    }

    pub async fn get(&mut self, path: &str) -> Page {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await
    }

    /// Submits a form.
    pub async fn post(&mut self, path: &str, pairs: &[(&str, &str)]) -> Page {
        let body: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let request = self.http.post(format!("{}{path}", self.base)).body(body.join("&"));
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .header("sec-fetch-site", self.site.clone());
        self.send(request).await
    }

    /// Submits a form from the page `on`, with that page's token.
    pub async fn act(&mut self, path: &str, on: &str, pairs: &[(&str, &str)]) -> Page {
        let page = self.get(on).await;
        let token = page.between("name=\"token\" value=\"", "\"");
        let mut all = vec![("token", token.as_str())];
        all.extend_from_slice(pairs);
        self.post(path, &all).await
    }

    async fn send(&mut self, mut request: reqwest::RequestBuilder) -> Page {
        if let Some(host) = &self.host {
            request = request.header("host", host);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", format!("theme=dark; entente={cookie}"));
        }
        let response = request.send().await.unwrap();
        let headers = response.headers().clone();
        let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        let cookie = header("set-cookie");
        if let Some((_, rest)) = cookie.split_once("entente=") {
            self.cookie = Some(rest.split(';').next().unwrap().to_owned()).filter(|key| !key.is_empty());
        }
        Page {
            status: response.status().as_u16(),
            location: header("location"),
            cookie,
            retry_after: header("retry-after").parse().unwrap_or(0),
            text: response.text().await.unwrap(),
            headers,
        }
    }
}

pub fn escape(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

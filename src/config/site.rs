//! Settings of the server's public URL, of the origins that may call it from a browser, and of the agent whose A2A card is
//! the server's.

use entente_domain::arcp::versions::is_name;
use entente_http::site::Site;

use super::Reader;

impl Reader<'_> {
    pub(super) fn site(&mut self) -> Site {
        let url = self.text("ENTENTE_PUBLIC_URL");
        let lawful = |url: &str| Site::origin(url).is_some_and(|origin| origin == url.trim_end_matches('/'));
        if let Some(url) = url.as_deref().filter(|url| !lawful(url)) {
            self.faults.push(format!(
                "ENTENTE_PUBLIC_URL={url}: must be a URL without a path, such as https://entente.example.com"
            ));
        }
        let list = |text: Option<String>| -> Vec<String> {
            let text = text.unwrap_or_default().to_lowercase();
            text.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
        };
        let origins = list(self.text("ENTENTE_MCP_ORIGINS"));
        if let Some(other) = origins.iter().find(|origin| !lawful(origin)) {
            self.faults.push(format!(
                "ENTENTE_MCP_ORIGINS={other}: must be origins such as https://app.example.com, with commas between"
            ));
        }
        Site::new(url, list(self.text("ENTENTE_MCP_HOSTS")), origins)
    }

    pub(super) fn a2a_agent(&mut self) -> Option<String> {
        let name = self.text("ENTENTE_A2A_AGENT")?;
        if !is_name(&name) {
            self.faults.push(format!(
                "ENTENTE_A2A_AGENT={name}: must be the name of an agent that runs jobs, such as echo"
            ));
        }
        Some(name)
    }
}

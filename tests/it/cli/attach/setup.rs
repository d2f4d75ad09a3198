//! `entente setup`: finds hosts by their folders, shows what it would write, asks, and harms no file.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::cli::{complaint, text};
use crate::harness::Value;
use crate::harness::process::Place;

fn setup(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command
        .arg("setup")
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("ENTENTE_API_KEY", "the-secret-key");
    command.env("PATH", "/nowhere").stdin(std::process::Stdio::null());
    command.output().unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn hosts_are_found_and_attached_after_asking() {
    let place = Place::new("setup");
    let home = place.0.as_path();
    let none = setup(home, &["--yes"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        complaint(&none).contains("no LLM host was found: Claude Code, Codex, Cursor"),
        "{}",
        complaint(&none)
    );

    for folder in [".claude", ".codex", ".cursor", ".gemini", ".config/Code/User"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    let cursor = home.join(".cursor/mcp.json");
    let own = "{ \"mcpServers\": { \"mine\": {\"command\":\"x\", \"args\": [1,  2]} }, \"zeta\": 1.50 }\n";
    fs::write(&cursor, own).unwrap();
    // Settings with comments are not JSON.
    let code = home.join(".config/Code/User/mcp.json");
    let commented = "{\n  // mine\n  \"servers\": {}\n}\n";
    fs::write(&code, commented).unwrap();

    let unasked = setup(home, &[]);
    assert_eq!(unasked.status.code(), Some(1));
    assert!(complaint(&unasked).contains("add --yes"), "{}", complaint(&unasked));
    let shown = setup(home, &["--dry-run"]);
    assert!(text(&shown).contains("Cursor: ") && text(&shown).contains("(changed)"), "{}", text(&shown));
    assert!(text(&shown).contains("Gemini CLI: ") && text(&shown).contains("(new)"), "{}", text(&shown));
    assert_eq!(fs::read_to_string(&cursor).unwrap(), own, "a dry run wrote");
    assert!(!home.join(".claude/settings.json").exists() && !home.join(".claude.json").exists());

    let first = setup(home, &["--yes"]);
    assert_eq!(first.status.code(), Some(1), "one host could not be attached");
    assert!(
        complaint(&first).contains("VS Code: ") && complaint(&first).contains("left as it is"),
        "{}",
        complaint(&first)
    );
    assert_eq!(fs::read_to_string(&code).unwrap(), commented);
    let kept = fs::read_to_string(&cursor).unwrap();
    assert!(kept.contains("{\"command\":\"x\", \"args\": [1,  2]}") && kept.contains("1.50"), "{kept}");
    let entry = &json(&cursor)["mcpServers"]["entente"];
    assert_eq!((&entry["command"], &entry["args"][1]), (&"entente".into(), &"mcp".into()));
    assert_eq!(json(&home.join(".gemini/settings.json"))["mcpServers"]["entente"], *entry);
    assert_eq!(json(&home.join(".claude.json"))["mcpServers"]["entente"], *entry);
    assert!(json(&home.join(".claude/settings.json"))["hooks"]["Stop"].is_array());
    assert!(fs::read_to_string(home.join(".codex/config.toml")).unwrap().contains("[mcp_servers.entente]"));
    assert!(!home.join(".codeium").exists(), "a host that is not here got settings");

    fs::write(&code, "").unwrap();
    let second = setup(home, &["--yes"]);
    assert!(second.status.success(), "{}", complaint(&second));
    assert_eq!(json(&code)["servers"]["entente"], *entry);
    assert_eq!(text(&second).matches("written: ").count(), 1, "{}", text(&second));
    let third = setup(home, &["--yes"]);
    assert!(third.status.success() && !text(&third).contains("written: "), "{}", text(&third));
    for path in [&cursor, &code, &home.join(".claude.json"), &home.join(".codex/config.toml")] {
        assert!(!fs::read_to_string(path).unwrap().contains("the-secret-key"), "{}", path.display());
    }
}

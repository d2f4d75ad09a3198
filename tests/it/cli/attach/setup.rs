//! `entente setup`: finds hosts by their folders, shows what it would write, asks, and harms no file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use entente_harness::Value;
use entente_harness::cli::{complaint, text};
use entente_harness::process::Place;
use entente_harness::terminal::Terminal;

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

#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_changes_while_the_question_stands_is_kept() {
    let place = Place::new("setup-meanwhile");
    let cursor = place.0.join(".cursor/mcp.json");
    fs::create_dir_all(cursor.parent().unwrap()).unwrap();
    fs::write(&cursor, "{ \"mcpServers\": {} }\n").unwrap();
    fs::set_permissions(&cursor, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("setup").env_clear().env("HOME", &place.0).env("PATH", "/nowhere");
    let path = cursor.clone();
    let (status, screen) = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::run(&mut command);
        terminal.until("[y/N]");
        fs::write(&path, "{ \"mcpServers\": { \"mine\": { \"command\": \"x\" } }, \"late\": true }\n")
            .unwrap();
        terminal.enter("y");
        terminal.end()
    })
    .await
    .unwrap();
    assert!(status.success(), "{screen}");
    let kept = json(&cursor);
    assert_eq!(
        (&kept["late"], &kept["mcpServers"]["mine"]["command"]),
        (&true.into(), &"x".into()),
        "{kept}"
    );
    assert_eq!(kept["mcpServers"]["entente"]["command"], "entente");
    assert_eq!(fs::metadata(&cursor).unwrap().permissions().mode() & 0o777, 0o600);
    let left: Vec<_> = fs::read_dir(cursor.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "a draft is left: {left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_without_a_yes() {
    let place = Place::new("setup-no");
    let home = place.0.clone();
    fs::create_dir_all(home.join(".gemini")).unwrap();
    let (status, screen) = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.arg("setup").env_clear().env("HOME", &home).env("PATH", "/nowhere");
        let mut terminal = Terminal::run(&mut command);
        terminal.until("[y/N]");
        terminal.enter("");
        terminal.end()
    })
    .await
    .unwrap();
    assert_eq!(status.code(), Some(1), "{screen}");
    assert!(screen.contains("nothing was written"), "{screen}");
    assert!(!place.0.join(".gemini/settings.json").exists());
}

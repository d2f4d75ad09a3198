//! Settings of hosts: written once, beside what the user has, and removed without a trace.

use std::fs;
use std::path::PathBuf;

use super::{Host, exists};
use entente_harness::cli::{complaint, text};
use entente_harness::process::Place;
use entente_harness::{Value, json};

fn host(place: &Place) -> Host {
    Host {
        name: "claude",
        home: place.0.clone(),
        url: "http://127.0.0.1:8080".to_owned(),
        key: "the-secret-key".to_owned(),
        variables: Vec::new(),
        arguments: Vec::new(),
    }
}

fn attach(host: &Host, arguments: &[&str]) -> String {
    let output = host.command(arguments).output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    text(&output)
}

/// The files of a folder, with their texts.
fn files(folder: &std::path::Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Settings that a user has, in a form of their own.
const SETTINGS: &str = r#"{
    "model" : "opus", "zeta": [1,2,  3],
    "hooks": {
        "Stop": [ { "hooks": [ {"type": "command", "command": "say done"} ] } ],
        "PreToolUse": [ { "matcher": "Bash", "hooks": [ {"type": "command", "command": "check"} ] } ]
    },
    "alpha": 1.50
}
"#;

#[test]
fn settings_are_written_once_and_removed_without_a_trace() {
    for (name, changed) in [("claude", ".claude/settings.json"), ("codex", ".codex/hooks.json")] {
        let place = Place::new("attach");
        let mut host = host(&place);
        host.variables.push(("ENTENTE_URL", "https://entente.example:8443/it's here".to_owned()));
        fs::create_dir_all(place.0.join(changed).parent().unwrap()).unwrap();
        fs::write(place.0.join(changed), SETTINGS).unwrap();
        let config = place.0.join(".codex/config.toml");
        if name == "codex" {
            fs::write(&config, "model = \"m\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n").unwrap();
        }
        let before = files(&place.0);
        let printed = attach(&host, &["install", name, "--print"]);
        assert_eq!(files(&place.0), before, "--print writes");
        assert!(attach(&host, &["install", name]).contains("written: "));
        let once = files(&place.0);
        for (path, content) in &once {
            assert!(!content.contains("the-secret-key"), "{content}");
            if path.extension().is_some_and(|end| end == "json" || end == "toml") {
                assert!(printed.contains(content.trim()), "{printed}");
            }
        }
        // The user's own members keep their order and their text.
        let settings = fs::read_to_string(place.0.join(changed)).unwrap();
        let parts =
            ["\"model\": \"opus\"", "\"zeta\": [1,2,  3]", "\"say done\"", "\"check\"", "\"alpha\": 1.50"];
        let places: Vec<usize> = parts.iter().map(|part| settings.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{settings}");
        let parsed: Value = serde_json::from_str(&settings).unwrap();
        let command = parsed["hooks"]["SessionStart"][0]["hooks"][0]["command"].as_str().unwrap();
        let quoted = r"--url 'https://entente.example:8443/it'\''s here'";
        assert_eq!(command, format!("entente attach hook {name} {quoted}"));
        let again = attach(&host, &["install", name]);
        assert!(again.contains("unchanged: ") && !again.contains("written: "), "{again}");
        assert_eq!(files(&place.0), once);
        // Another agent replaces the first; there are no two.
        host.variables.clear();
        attach(&host, &["install", name, "--as", "agent.bob"]);
        let replaced = fs::read_to_string(place.0.join(changed)).unwrap();
        assert!(replaced.contains("--as agent.bob") && !replaced.contains("entente.example"), "{replaced}");
        attach(&host, &["uninstall", name]);
        let left: Value = serde_json::from_str(&fs::read_to_string(place.0.join(changed)).unwrap()).unwrap();
        assert_eq!(left, serde_json::from_str::<Value>(SETTINGS).unwrap());
        if name == "codex" {
            let text = fs::read_to_string(&config).unwrap();
            assert_eq!(text, "model = \"m\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n");
        }
    }
}

#[test]
fn a_project_has_settings_of_its_own() {
    let place = Place::new("attach");
    let project = place.0.join("project");
    fs::create_dir(&project).unwrap();
    let (host, folder) = (host(&place), project.to_str().unwrap());
    attach(&host, &["uninstall", "claude", "--project", folder]);
    attach(&host, &["uninstall", "codex", "--project", folder]);
    assert_eq!(files(&place.0), [], "removing creates files");
    attach(&host, &["install", "claude", "--project", folder]);
    attach(&host, &["install", "codex", "--project", folder]);
    for name in [".claude/settings.json", ".mcp.json", ".codex/hooks.json", ".codex/config.toml"] {
        assert!(exists(&project, name), "{name}");
    }
    assert!(!exists(&place.0, ".claude") && !exists(&place.0, ".codex"));
    let servers: Value =
        serde_json::from_str(&fs::read_to_string(project.join(".mcp.json")).unwrap()).unwrap();
    let expected = json!({ "type": "stdio", "command": "entente", "args": ["attach", "mcp"] });
    assert_eq!(servers["mcpServers"]["entente"], expected);
    let toml = fs::read_to_string(project.join(".codex/config.toml")).unwrap();
    assert!(
        toml.contains("[mcp_servers.entente]\ncommand = \"entente\"\nargs = [\"attach\",\"mcp\"]\n"),
        "{toml}"
    );
}

#[test]
fn files_that_are_not_understood_are_left_alone() {
    let place = Place::new("attach");
    let host = host(&place);
    let settings = place.0.join(".claude/settings.json");
    fs::create_dir(place.0.join(".claude")).unwrap();
    for text in ["{ \"hooks\": // none\n {} }", "[]", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": {}}}"] {
        fs::write(&settings, text).unwrap();
        let output = host.command(&["install", "claude"]).output().unwrap();
        assert!(
            !output.status.success() && complaint(&output).contains("left as it is"),
            "{}",
            complaint(&output)
        );
        assert_eq!(fs::read_to_string(&settings).unwrap(), text);
        assert!(!exists(&place.0, ".claude.json"), "half of it was written");
    }
    fs::create_dir(place.0.join(".codex")).unwrap();
    let config = place.0.join(".codex/config.toml");
    let own = "[mcp_servers.entente]\nurl = \"http://127.0.0.1:8080/mcp\"\n";
    fs::write(&config, own).unwrap();
    let output = host.command(&["install", "codex"]).output().unwrap();
    assert!(complaint(&output).contains("of your own"), "{}", complaint(&output));
    assert!(fs::read_to_string(&config).unwrap() == own && !exists(&place.0, ".codex/hooks.json"));
    // A link stays one, and the file behind it keeps its permissions.
    let real = place.0.join("dotfiles.json");
    fs::write(&real, "{}").unwrap();
    fs::set_permissions(&real, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::remove_file(&settings).unwrap();
    std::os::unix::fs::symlink(&real, &settings).unwrap();
    attach(&host, &["install", "claude"]);
    assert!(fs::symlink_metadata(&settings).unwrap().is_symlink());
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&real).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(fs::read_to_string(&real).unwrap().contains("attach hook claude"));
}

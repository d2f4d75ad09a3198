//! `entente attach install` and `uninstall`: the hooks and the MCP server in the host's own settings. Everything else in the
//! files stays as it is, byte for byte; no key is written, because the host passes its environment on.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::hosts::Host;
use super::members::{Members, array, pretty};
use crate::output::note;
use crate::remote::{Remote, variable};
use crate::{Done, Failure};

/// Name of the MCP server in the host's settings.
const SERVER: &str = "entente";
/// Seconds that a host gives a hook that it waits for; the hook itself takes five at most.
const HOOK_SECONDS: u32 = 10;
/// Seconds that the hook in the background waits: a day, longer than people leave a session alone.
const WAIT_SECONDS: u32 = 86_400;
/// First and last line of the block that is written into a TOML file.
const BEGIN: &str = "# entente attach: begin (`entente attach uninstall codex` removes this)";
const END: &str = "# entente attach: end";

/// Writes the settings, or removes them; prints the files instead if asked to.
///
/// # Errors
/// A file cannot be read or written, or is not in the host's form; then it is left as it is.
pub(super) fn run(remote: &Remote, host: Host, project: Option<&Path>, prints: bool, installs: bool) -> Done {
    // All files are computed before one is written.
    let files = changes(&remote.options(), host, project, installs)?;
    let mut out = io::stdout().lock();
    for (path, before, after) in files {
        if prints {
            writeln!(out, "--- {}\n{}", path.display(), after.trim_end())?;
        } else if before.as_deref().unwrap_or_default() == after {
            writeln!(out, "unchanged: {}", path.display())?;
        } else {
            write(&path, before.as_deref(), &after)?;
            writeln!(out, "written: {}", path.display())?;
        }
    }
    if installs && !prints {
        note(KEY);
        if host == Host::Codex {
            note(TRUST);
        }
    }
    Ok(())
}

/// The step that is left to a user: the key is in no file.
pub(super) const KEY: &str =
    "Put the agent's key into ENTENTE_API_KEY where you start the host; ENTENTE_URL names another server.";
/// The step that is left to a user of Codex.
pub(super) const TRUST: &str = "Codex runs a hook once you trust it: open /hooks in Codex.";

/// A file: its path, its text, and its text to be.
pub(super) type Change = (PathBuf, Option<String>, String);

/// Returns the changes of a host's settings.
///
/// # Errors
/// A file cannot be read, or is not in the host's form.
pub(super) fn changes(
    options: &[String],
    host: Host,
    project: Option<&Path>,
    installs: bool,
) -> Result<Vec<Change>, Failure> {
    match host {
        Host::Claude => claude(project, options, installs),
        Host::Codex => codex(project, options, installs),
    }
}

/// Returns the change of a file that lists MCP servers in one of its members, for a host without hooks.
///
/// # Errors
/// The file cannot be read, or is not in the host's form.
pub(super) fn listed(path: PathBuf, member: &str, options: &[String]) -> Result<Option<Change>, Failure> {
    let server = server(options);
    changed(path, |members| set_server(members, member, Some(&server)))
}

/// Returns the MCP server as most hosts describe it.
fn server(options: &[String]) -> Value {
    let mut command = vec!["attach".to_owned(), "mcp".to_owned()];
    command.extend_from_slice(options);
    json!({ "type": "stdio", "command": "entente", "args": command })
}

/// Returns the settings of Claude Code: hooks in one file, the MCP server in another.
fn claude(project: Option<&Path>, options: &[String], installs: bool) -> Result<Vec<Change>, Failure> {
    let (settings, servers) = match (project, variable("CLAUDE_CONFIG_DIR")) {
        (Some(project), _) => (project.join(".claude/settings.json"), project.join(".mcp.json")),
        (None, Some(folder)) => {
            (Path::new(&folder).join("settings.json"), Path::new(&folder).join(".claude.json"))
        }
        (None, None) => (home()?.join(".claude/settings.json"), home()?.join(".claude.json")),
    };
    let hook = |seconds: Option<u32>| hook(Host::Claude, options, seconds);
    let mut hooks = common_hooks(Host::Claude, options);
    hooks[3].1.push(json!({ "hooks": [hook(Some(WAIT_SECONDS))] }));
    hooks.push(("Notification", vec![json!({ "matcher": "idle_prompt", "hooks": [hook(None)] })]));
    let server = server(options);
    let hooks = changed(settings, |members| set_hooks(members, &hooks, installs))?;
    let servers = changed(servers, |members| set_server(members, "mcpServers", installs.then_some(&server)))?;
    Ok(hooks.into_iter().chain(servers).collect())
}

/// Returns the settings of Codex.
fn codex(project: Option<&Path>, options: &[String], installs: bool) -> Result<Vec<Change>, Failure> {
    let folder = match (project, variable("CODEX_HOME")) {
        (Some(project), _) => project.join(".codex"),
        (None, Some(folder)) => PathBuf::from(folder),
        (None, None) => home()?.join(".codex"),
    };
    let hooks = common_hooks(Host::Codex, options);
    let hooks = changed(folder.join("hooks.json"), |members| set_hooks(members, &hooks, installs))?;
    let config = folder.join("config.toml");
    let before = read(&config)?;
    let after = with_table(before.as_deref().unwrap_or_default(), options, installs)?;
    let config = (before.is_some() || installs).then_some((config, before, after));
    Ok(hooks.into_iter().chain(config).collect())
}

/// Returns the hooks that every host runs.
fn common_hooks(host: Host, options: &[String]) -> Vec<(&'static str, Vec<Value>)> {
    let events = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"];
    events.map(|event| (event, vec![json!({ "hooks": [hook(host, options, None)] })])).to_vec()
}

/// Returns a hook: one that the host waits for, or one that waits in the background.
fn hook(host: Host, options: &[String], wait: Option<u32>) -> Value {
    let quoted = options.iter().map(|option| quoted(option));
    let options = quoted.fold(String::new(), |text, option| format!("{text} {option}"));
    let command = format!("entente attach hook {host}{options}");
    match wait {
        None => json!({ "type": "command", "command": command, "timeout": HOOK_SECONDS }),
        Some(seconds) => json!({
            "type": "command", "command": format!("{command} --wait {seconds}"), "timeout": seconds,
            "asyncRewake": true,
        }),
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Returns whether a hook is one of ours.
fn is_ours(hook: &Value) -> bool {
    hook["command"].as_str().is_some_and(|command| command.starts_with("entente attach hook "))
}

/// Replaces our hooks in the member `hooks`, and leaves those of the user.
fn set_hooks(members: &mut Members, hooks: &[(&str, Vec<Value>)], installs: bool) -> Result<(), Failure> {
    let mut events: Members = match members.get("hooks") {
        Some(text) => serde_json::from_str(text.get())?,
        None => Members::default(),
    };
    for (event, ours) in hooks {
        let groups: Vec<Box<RawValue>> = match events.get(event) {
            Some(text) => serde_json::from_str(text.get())?,
            None => Vec::new(),
        };
        let mut kept = Vec::new();
        for group in groups {
            kept.extend(without_ours(group)?);
        }
        if installs {
            for group in ours {
                kept.push(RawValue::from_string(pretty(group, 3)?)?);
            }
        }
        events.set(event, (!kept.is_empty()).then(|| array(&kept, 2)))?;
    }
    members.set("hooks", (!events.is_empty()).then(|| events.render(1)))?;
    Ok(())
}

/// Removes our hooks from a group; `None` if it had no others.
fn without_ours(group: Box<RawValue>) -> Result<Option<Box<RawValue>>, Failure> {
    let mut value: Value = serde_json::from_str(group.get())?;
    let Some(hooks) = value["hooks"].as_array_mut() else { return Ok(Some(group)) };
    let all = hooks.len();
    hooks.retain(|hook| !is_ours(hook));
    match hooks.len() {
        left if left == all => Ok(Some(group)),
        0 => Ok(None),
        _ => Ok(Some(RawValue::from_string(pretty(&value, 3)?)?)),
    }
}

/// Sets or removes our server in the member with the servers.
fn set_server(members: &mut Members, member: &str, server: Option<&Value>) -> Result<(), Failure> {
    let mut servers: Members = match members.get(member) {
        Some(text) => serde_json::from_str(text.get())?,
        None if server.is_none() => return Ok(()),
        None => Members::default(),
    };
    servers.set(SERVER, server.map(|server| pretty(server, 2)).transpose()?)?;
    // An empty object that is left harms nobody, and may be the user's.
    members.set(member, Some(servers.render(1)))?;
    Ok(())
}

/// Changes a JSON file; `None` if there is none and nothing to write.
fn changed(
    path: PathBuf,
    change: impl FnOnce(&mut Members) -> Result<(), Failure>,
) -> Result<Option<Change>, Failure> {
    let before = read(&path)?;
    let text = before.as_deref().unwrap_or_default();
    let text = if text.trim().is_empty() { "{}" } else { text };
    let unfit = |fault: &dyn std::fmt::Display| {
        format!(
            "{} is not in the form of the host's settings ({fault}); it was left as it is",
            path.display()
        )
    };
    let mut members: Members = serde_json::from_str(text).map_err(|fault| unfit(&fault))?;
    change(&mut members).map_err(|fault| unfit(&fault))?;
    let after = format!("{}\n", members.render(0));
    // Whoever has all of it keeps the text as it is.
    let same = serde_json::from_str::<Value>(text)? == serde_json::from_str::<Value>(&after)?;
    match before {
        None if same => Ok(None),
        Some(before) if same => Ok(Some((path, Some(before.clone()), before))),
        before => Ok(Some((path, before, after))),
    }
}

/// Returns a TOML text with or without our table, which stands between two lines of its own at the end.
fn with_table(text: &str, options: &[String], installs: bool) -> Result<String, Failure> {
    let mut rest = text.to_owned();
    if let Some((before, after)) = text.split_once(BEGIN) {
        let Some((_ours, after)) = after.split_once(END) else {
            return Err(
                format!("config.toml has the line `{BEGIN}` without `{END}`: remove it by hand").into()
            );
        };
        rest = format!(
            "{}{}",
            before.trim_end_matches('\n'),
            after.trim_start_matches('\n').replacen("", "\n", 1)
        );
    }
    if rest.lines().any(|line| line.trim().replace([' ', '"'], "").starts_with("[mcp_servers.entente]")) {
        return if installs {
            Err("config.toml has a table [mcp_servers.entente] of your own: rename or remove it first".into())
        } else {
            Ok(text.to_owned())
        };
    }
    if !installs {
        return Ok(rest.trim_start_matches('\n').to_owned());
    }
    let mut arguments = vec!["attach", "mcp"];
    arguments.extend(options.iter().map(String::as_str));
    // A JSON array of strings is a TOML array too. Codex passes on only the variables that are named.
    let table = format!(
        "{BEGIN}\n[mcp_servers.{SERVER}]\ncommand = \"entente\"\nargs = {}\nenv_vars = {}\n{END}\n",
        json!(arguments),
        json!(["ENTENTE_API_KEY", "ENTENTE_URL", "ENTENTE_EPOCH"]),
    );
    let rest = rest.trim_end_matches('\n');
    Ok(if rest.is_empty() { table } else { format!("{rest}\n\n{table}") })
}

/// Returns the user's folder.
///
/// # Errors
/// HOME names none.
pub(super) fn home() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(variable("HOME").ok_or("HOME names no folder; give --project")?))
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Replaces a file in one step, with its permissions; a link stays a link.
///
/// # Errors
/// It is another than `before` by now, because the host has changed it; it cannot be written. Then it is left as it is.
pub(super) fn write(path: &Path, before: Option<&str>, text: &str) -> Done {
    let path = fs::canonicalize(path).unwrap_or_else(|_new| path.to_owned());
    if read(&path)?.as_deref() != before {
        let path = path.display();
        return Err(
            format!("{path} was changed meanwhile, and was left as it is. Run the command again").into()
        );
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let draft = path.with_extension(format!("entente-{}", std::process::id()));
    let replaced = drafted(&draft, &path, text).and_then(|()| fs::rename(&draft, &path));
    if replaced.is_err() {
        // The failure to write counts.
        let _left = fs::remove_file(&draft);
    }
    Ok(replaced?)
}

/// Writes the draft of a file, which never has wider permissions than the file.
fn drafted(draft: &Path, path: &Path, text: &str) -> io::Result<()> {
    let permissions = fs::metadata(path).ok().map(|found| found.permissions());
    let mode = permissions.as_ref().map_or(0o666, PermissionsExt::mode);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(draft)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

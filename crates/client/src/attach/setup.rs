//! `entente setup`: finds the LLM hosts of this user, and writes their settings after asking. `install.rs` computes and writes the
//! files; a key is in none of them.

use std::env::split_paths;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;

use super::hosts::Host;
use super::install::{Change, KEY, TRUST, changes, home, listed, write};
use crate::output::note;
use crate::remote::{Remote, variable};
use crate::{Done, Failure};

/// Find the LLM hosts on this machine, and attach them to the server after asking
#[derive(Debug, Args)]
pub(crate) struct Setup {
    #[command(flatten)]
    remote: Remote,
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// Print the files instead of writing them
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

/// How a host is attached.
enum Way {
    /// By hooks and its MCP server.
    Hooks(Host),
    /// By its MCP server, which a member of this file lists.
    Servers(PathBuf, &'static str),
}

/// A host that may be here.
struct Known {
    name: &'static str,
    way: Way,
    /// Its folder, which it creates itself.
    folder: PathBuf,
    /// Its program, if it is started by name.
    program: Option<&'static str>,
}

impl Known {
    fn is_here(&self) -> bool {
        self.folder.is_dir() || self.program.is_some_and(is_on_path)
    }

    fn changes(&self, options: &[String]) -> Result<Vec<Change>, Failure> {
        match &self.way {
            Way::Hooks(host) => changes(options, *host, None, true),
            Way::Servers(path, member) => Ok(listed(path.clone(), member, options)?.into_iter().collect()),
        }
    }
}

fn is_on_path(program: &str) -> bool {
    variable("PATH").is_some_and(|path| split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// Returns the hosts that are known, with the places of their settings.
fn known() -> Result<Vec<Known>, Failure> {
    let home = home()?;
    // Applications of macOS keep their settings elsewhere.
    let application = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    let of = |name, folder: &str, file: &str, member, program| {
        let folder = home.join(folder);
        Known { name, way: Way::Servers(folder.join(file), member), folder, program }
    };
    let folder = |name: &str, default: &str| variable(name).map_or_else(|| home.join(default), PathBuf::from);
    let hooked = |name, host, folder, program| Known { name, way: Way::Hooks(host), folder, program };
    Ok(vec![
        hooked("Claude Code", Host::Claude, folder("CLAUDE_CONFIG_DIR", ".claude"), Some("claude")),
        hooked("Codex", Host::Codex, folder("CODEX_HOME", ".codex"), Some("codex")),
        of("Cursor", ".cursor", "mcp.json", "mcpServers", None),
        of("VS Code", &format!("{application}/Code/User"), "mcp.json", "servers", None),
        of("Gemini CLI", ".gemini", "settings.json", "mcpServers", Some("gemini")),
        of("Windsurf", ".codeium/windsurf", "mcp_config.json", "mcpServers", None),
        of(
            "Claude Desktop",
            &format!("{application}/Claude"),
            "claude_desktop_config.json",
            "mcpServers",
            None,
        ),
    ])
}

impl Setup {
    pub(crate) fn run(self) -> Done {
        let known = known()?;
        let found: Vec<&Known> = known.iter().filter(|host| host.is_here()).collect();
        if found.is_empty() {
            let names: Vec<&str> = known.iter().map(|host| host.name).collect();
            return Err(format!(
                "no LLM host was found: {} have no settings under HOME. Any other host takes the command `entente attach mcp` \
                 as a server on stdin and stdout, or {}/mcp over HTTP",
                names.join(", "),
                self.remote.url()
            )
            .into());
        }
        let options = self.remote.options();
        let (mut is_whole, mut is_changing) = (true, false);
        let mut out = io::stdout().lock();
        for host in &found {
            match host.changes(&options) {
                Ok(files) => {
                    for (path, before, after) in files {
                        let state = state(before.as_deref(), &after);
                        is_changing |= state != UNCHANGED;
                        writeln!(out, "{}: {} ({state})", host.name, path.display())?;
                        if self.dry_run {
                            writeln!(out, "{}\n", after.trim_end())?;
                        }
                    }
                }
                Err(failure) => {
                    is_whole = false;
                    note(&format!("{}: {failure}", host.name));
                }
            }
        }
        if !self.dry_run && is_changing {
            if !self.yes && !is_agreed(&mut out)? {
                return Err("nothing was written".into());
            }
            is_whole &= attach(&mut out, &found, &options)?;
            note(KEY);
            if found.iter().any(|host| matches!(host.way, Way::Hooks(Host::Codex))) {
                note(TRUST);
            }
        }
        if is_whole { Ok(()) } else { Err("not every host could be attached".into()) }
    }
}

/// Writes the files of all hosts; returns whether all could be written. They are computed again: a host may have changed its own
/// while the user thought about it.
fn attach(out: &mut impl io::Write, found: &[&Known], options: &[String]) -> Result<bool, Failure> {
    let mut is_whole = true;
    for host in found {
        // `run` has reported a host whose files cannot be read; one that became unreadable since is left out silently.
        let Ok(files) = host.changes(options) else { continue };
        for (path, before, after) in files.into_iter().filter(|file| file.1.as_ref() != Some(&file.2)) {
            match write(&path, before.as_deref(), &after) {
                Ok(()) => writeln!(out, "written: {}", path.display())?,
                Err(failure) => {
                    is_whole = false;
                    note(&format!("{}: {failure}", host.name));
                }
            }
        }
    }
    Ok(is_whole)
}

/// State of a file that has everything.
const UNCHANGED: &str = "unchanged";

fn state(before: Option<&str>, after: &str) -> &'static str {
    match before {
        None => "new",
        Some(before) if before == after => UNCHANGED,
        Some(_) => "changed",
    }
}

/// Asks on the terminal.
fn is_agreed(out: &mut impl io::Write) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(
            "nobody can be asked here: add --yes to write these files, or --dry-run to see them".into()
        );
    }
    write!(out, "Write these files? What else is in them stays as it is. [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

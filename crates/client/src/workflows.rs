//! `entente workflow`: applies a YAML file in the format of RFC-0021 to a server. It uses the same API as
//! every client, and never creates anything twice.

mod agents;
mod apply;
mod compare;
mod form;
mod steps;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use self::form::Form;
use super::output::{Row, print_json, print_table};
use super::remote::Remote;
use super::{Done, Failure};

/// Workflows: an intent with its agents, tasks and channels, from a YAML file
#[derive(Debug, Args)]
pub(super) struct Workflows {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Apply the file to the server: create and change its intent, agents, tasks and channels
    Apply {
        /// The workflow file
        file: PathBuf,
        /// Only show the changes
        #[arg(long)]
        dry_run: bool,
        /// Create a new intent if the workflow's last one has ended
        #[arg(long)]
        again: bool,
    },
    /// Check the file, without a server
    Check {
        /// The workflow file
        file: PathBuf,
    },
}

impl Workflows {
    pub(super) async fn run(self) -> Done {
        match self.verb {
            Verb::Check { file } => {
                let form = read(&file)?;
                let counted = json!({
                    "workflow": form.name(), "agents": form.agents.len(), "tasks": form.tasks.len(),
                    "channels": form.channels.len(),
                });
                if self.remote.json {
                    return print_json(&counted);
                }
                writeln!(
                    io::stdout(),
                    "{}: `{}` with {} agents, {} tasks and {} channels; nothing is wrong with it",
                    file.display(),
                    form.name(),
                    counted["agents"],
                    counted["tasks"],
                    counted["channels"]
                )?;
                Ok(())
            }
            Verb::Apply { file, dry_run, again } => {
                let form = read(&file)?;
                let report = apply::apply(&self.remote.api()?, &form, dry_run, again).await?;
                let answer = report.answer(form.name(), dry_run);
                if self.remote.json {
                    print_json(&answer)?;
                } else {
                    let columns = ["thing", "name", "outcome", "id", "detail"];
                    let steps = answer["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
                    print_table(
                        &columns,
                        &steps.iter().map(|step| Row::of(step, &columns)).collect::<Vec<_>>(),
                    )?;
                }
                report.verdict().map_err(Failure::from)
            }
        }
    }
}

/// Reads a workflow file; reports all of its errors, each with its position.
fn read(file: &Path) -> Result<Form, Failure> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
    Form::read(&text).map_err(|faults| {
        let told: Vec<String> = faults.iter().map(|fault| format!("{name}:{fault}")).collect();
        told.join("\n").into()
    })
}

//! `entente workflow`: applies a YAML file to a server, in the format of RFC-0021 or of the OpenIntent Python SDK
//! (`openintent: "1.0"`). It uses the same API as every client, and never creates anything twice.

mod agents;
mod apply;
mod compare;
mod faults;
mod form;
mod phases;
mod sdk;
mod steps;
mod tree;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use self::faults::Fault;
use self::form::Form;
use self::sdk::SdkForm;
use super::failures::Faulty;
use super::output::{TableRow, print_json, print_table};
use super::remote::Remote;
use super::{Done, Failure};

/// Workflows: intents with their agents, tasks and channels, from a YAML file
#[derive(Debug, Args)]
pub(super) struct Workflows {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Apply the file to the server: create and change its intents, agents, tasks and channels
    Apply {
        /// The workflow file: in the form of RFC-0021, or of the OpenIntent Python SDK
        file: PathBuf,
        /// Only show the changes
        #[arg(long)]
        dry_run: bool,
        /// Create a new intent if the workflow's last one has ended
        #[arg(long)]
        again: bool,
    },
    /// Check the file, without a server, and tell what `apply` does with it
    Check {
        /// The workflow file: in the form of RFC-0021, or of the OpenIntent Python SDK
        file: PathBuf,
    },
}

/// A workflow in one of the two forms.
enum Workflow {
    Rfc(Box<Form>),
    Sdk(Box<SdkForm>),
}

impl Workflows {
    pub(super) async fn run(self) -> Done {
        match self.verb {
            Verb::Check { file } => {
                let workflow = Workflow::read(&file)?;
                if self.remote.json {
                    return print_json(&workflow.described());
                }
                workflow.print(&file)
            }
            Verb::Apply { file, dry_run, again } => {
                let workflow = Workflow::read(&file)?;
                let api = self.remote.api()?;
                let report = match &workflow {
                    Workflow::Rfc(form) => apply::apply(&api, form, dry_run, again).await?,
                    Workflow::Sdk(form) => phases::apply(&api, form, dry_run, again).await?,
                };
                let mut answer = report.answer(workflow.name(), dry_run);
                answer["notes"] = workflow.notes();
                if self.remote.json {
                    print_json(&answer)?;
                } else {
                    let columns = ["thing", "name", "outcome", "id", "detail"];
                    let steps = answer["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
                    print_table(
                        &columns,
                        &steps.iter().map(|step| TableRow::of(step, &columns)).collect::<Vec<_>>(),
                    )?;
                    workflow.print_notes(&file)?;
                }
                report.verdict().map_err(Failure::from)
            }
        }
    }
}

impl Workflow {
    /// Reads a workflow file; reports all of its errors, each with its position.
    fn read(file: &Path) -> Result<Self, Failure> {
        let name = file.display();
        let text = fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
        let read = match sdk::read(&text) {
            Some(read) => read.map(|form| Self::Sdk(Box::new(form))),
            None => Form::read(&text).map(|form| Self::Rfc(Box::new(form))),
        };
        read.map_err(|faults| {
            let told: Vec<String> = faults.iter().map(|fault| format!("{name}:{fault}")).collect();
            Faulty { message: told.join("\n"), errors: faults.iter().map(Fault::object).collect() }.into()
        })
    }

    fn name(&self) -> &str {
        match self {
            Self::Rfc(form) => form.name(),
            Self::Sdk(form) => form.root.name(),
        }
    }

    /// Returns the remarks for programs; only the form of the SDK has members that are not applied.
    fn notes(&self) -> Value {
        match self {
            Self::Rfc(_) => json!([]),
            Self::Sdk(form) => form.notes.iter().map(sdk::Note::object).collect(),
        }
    }

    /// Returns a summary of the file, for programs.
    fn described(&self) -> Value {
        let mut told = match self {
            Self::Rfc(form) => json!({
                "workflow": form.name(), "form": "rfc-0021", "agents": form.agents.len(),
                "tasks": form.tasks.len(), "channels": form.channels.len(),
            }),
            Self::Sdk(form) => {
                let counts = form.applied().map(|(thing, count)| (thing.replace(' ', "_"), json!(count)));
                let mut told = Map::from_iter(counts);
                told.insert("workflow".to_owned(), json!(self.name()));
                told.insert("form".to_owned(), json!("openintent-1.0"));
                Value::Object(told)
            }
        };
        told["notes"] = self.notes();
        told
    }

    /// Prints a summary of the file, for people.
    fn print(&self, file: &Path) -> Done {
        let (name, file_name) = (self.name(), file.display());
        let mut out = io::stdout().lock();
        match self {
            Self::Rfc(form) => writeln!(
                out,
                "{file_name}: `{name}` with {} agents, {} tasks and {} channels; nothing is wrong with it",
                form.agents.len(),
                form.tasks.len(),
                form.channels.len()
            )?,
            Self::Sdk(form) => {
                let counts = form.applied().into_iter().filter(|(_, count)| *count > 0);
                let counts: Vec<String> = counts.map(|(thing, count)| format!("{count} {thing}")).collect();
                writeln!(
                    out,
                    "{file_name}: `{name}`, in the form of the OpenIntent SDK; nothing is wrong with it. Applied: an intent for the \
                     workflow, and below it {}",
                    counts.join(", ")
                )?;
            }
        }
        drop(out);
        self.print_notes(file)
    }

    /// Prints the remarks, one per line.
    fn print_notes(&self, file: &Path) -> Done {
        let Self::Sdk(form) = self else { return Ok(()) };
        let mut out = io::stdout().lock();
        for note in &form.notes {
            writeln!(out, "{}:{note}", file.display())?;
        }
        Ok(())
    }
}

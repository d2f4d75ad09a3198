//! Names the commit that a release is built from; `entente --version` prints it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    // The image and the release workflow give it, because they build without the repository.
    let given = env("BUILD_COMMIT");
    // Other profiles do not follow the commit: each commit would link all tests anew.
    let is_release = env("PROFILE").is_some_and(|profile| profile == "release");
    let other = if is_release { "commit unknown" } else { "development build" };
    let commit = given.or_else(|| is_release.then(checked_out).flatten());
    println!("cargo::rustc-env=ENTENTE_COMMIT={}", commit.as_deref().unwrap_or(other));
}

#[expect(clippy::disallowed_methods, reason = "Cargo passes what it knows in the environment")]
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the commit that is checked out, with `-dirty` for changes that are not committed; `None` outside of a repository.
fn checked_out() -> Option<String> {
    // This file is rewritten with each commit, also in a worktree.
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

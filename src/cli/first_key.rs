//! First key of a new database, the operator's: given by a setting, kept in a file, or printed once.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use entente_domain::identity::keys::Presented;
use entente_domain::ids::Chance;
use entente_kernel::Ctx;
use entente_kernel::identity::seeds;
use entente_runtime::environment::OsChance;

use super::run::operator_key;
use super::{Done, Failure, private_file};
use crate::config::first_key::FirstKey;

/// Creates the first key if there is none, and returns what to tell the operator.
///
/// # Errors
/// The file cannot be used; database errors.
pub(super) async fn create(ctx: &Ctx, wanted: &FirstKey) -> Result<Option<String>, Failure> {
    if !seeds::is_first_start(ctx).await? {
        return Ok(None);
    }
    let (presented, told) = match wanted {
        FirstKey::Printed => (Presented::mint(&*ctx.chance), None),
        FirstKey::Given(key) => {
            (parsed(key, "ENTENTE_BOOTSTRAP_KEY")?, Some("ENTENTE_BOOTSTRAP_KEY".to_owned()))
        }
        FirstKey::File(path) => (kept(path, &*ctx.chance)?, Some(path.display().to_string())),
    };
    let new = seeds::bootstrap(ctx, &presented).await?;
    let what = "makes principals, keys and links. Agents get keys of their own (`entente key create`); give them none that does \
                everything";
    Ok(match told {
        Some(place) => {
            new.map(|_new| format!("This is the first start. The operator's key is in {place}. It {what}."))
        }
        None => new.and_then(|new| {
            operator_key(
                &format!("This is the first start. The operator's key, shown only now, {what}:"),
                &new,
            )
        }),
    })
}

/// Prints a fresh key.
pub(super) fn print() -> Done {
    writeln!(std::io::stdout().lock(), "{}", Presented::mint(&OsChance::default()).reveal())?;
    Ok(())
}

/// Reads the key of a file, or creates the file with a new one.
///
/// The file is complete before the key takes effect: a crash in between leaves a file that the next start uses.
pub(super) fn kept(path: &Path, chance: &dyn Chance) -> Result<Presented, Failure> {
    let failed = |e: std::io::Error| format!("the key cannot be kept in {}: {e}", path.display());
    match fs::read_to_string(path) {
        Ok(text) => return parsed(text.trim(), &path.display().to_string()),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e).into()),
    }
    let presented = Presented::mint(chance);
    if private_file::create(path, &format!("{}\n", presented.reveal())).map_err(failed)? {
        return Ok(presented);
    }
    // Another process was first.
    parsed(fs::read_to_string(path).map_err(failed)?.trim(), &path.display().to_string())
}

fn parsed(text: &str, place: &str) -> Result<Presented, Failure> {
    Presented::parse(text)
        .ok_or_else(|| format!("{place} has no key; `entente bootstrap-key` prints one").into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_made_once_and_for_this_user_alone() {
        let dir = std::env::temp_dir().join(format!("entente-operator-key-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (path, chance) = (dir.join("operator.key"), OsChance::default());
        let made = kept(&path, &chance).unwrap().reveal();
        assert_eq!(kept(&path, &chance).unwrap().reveal(), made);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing else is left");
        fs::write(&path, "something else").unwrap();
        assert!(kept(&path, &chance).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}

//! Has Cargo compile the crate again when a migration is added: the migrations are embedded by `src/migrate.rs`, and Cargo
//! watches only files that a crate names.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations");
}

//! Sessions: through which clients follow their jobs (ARCP §6). Table `sessions`.

pub(crate) mod counters;

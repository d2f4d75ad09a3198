//! Rows that a transaction writes at its end: the operations of a batch collect them, and one statement writes all rows of
//! a kind. A round trip and a statement cost more than the row itself.

use std::any::Any;

use futures_util::future::BoxFuture;
use sqlx::PgConnection;

use crate::Outcome;

/// Collects a column of the rows to write, as an array for `UNNEST`.
#[macro_export]
macro_rules! column {
    ($rows:expr, $row:pat_param => $value:expr) => {
        &$rows.iter().map(|$row| $value).collect::<Vec<_>>()
    };
}

/// A row, or several that belong together, that nothing else in its operation needs to find in the database.
pub trait Deferred: Send + Sized + 'static {
    /// Writes these in their order.
    fn write(conn: &mut PgConnection, rows: Vec<Self>) -> impl Future<Output = Outcome<()>> + Send;
}

/// Rows of one kind.
trait Kind: Send {
    fn as_any(&mut self) -> &mut dyn Any;

    /// Appends those of another list, unless that is of another kind, which it returns.
    fn append(&mut self, other: Box<dyn Kind>) -> Option<Box<dyn Kind>>;

    fn write(self: Box<Self>, conn: &mut PgConnection) -> BoxFuture<'_, Outcome<()>>;
}

struct Rows<T>(Vec<T>);

impl<T: Deferred> Kind for Rows<T> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn append(&mut self, mut other: Box<dyn Kind>) -> Option<Box<dyn Kind>> {
        match other.as_any().downcast_mut::<Self>() {
            Some(same) => self.0.append(&mut same.0),
            None => return Some(other),
        }
        None
    }

    fn write(self: Box<Self>, conn: &mut PgConnection) -> BoxFuture<'_, Outcome<()>> {
        Box::pin(T::write(conn, self.0))
    }
}

/// Rows to write at the end of a transaction, by kind, in the order in which the kinds came up.
#[derive(Default)]
pub(crate) struct DeferredRows(Vec<Box<dyn Kind>>);

impl DeferredRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push<T: Deferred>(&mut self, row: T) {
        self.add(Box::new(Rows(vec![row])));
    }

    pub(crate) fn append(&mut self, other: Self) {
        other.0.into_iter().for_each(|rows| self.add(rows));
    }

    fn add(&mut self, rows: Box<dyn Kind>) {
        let mut left = Some(rows);
        for kind in &mut self.0 {
            left = left.and_then(|rows| kind.append(rows));
        }
        self.0.extend(left);
    }

    /// Writes the rows, and forgets them.
    pub(crate) async fn write(&mut self, conn: &mut PgConnection) -> Outcome<()> {
        for rows in std::mem::take(&mut self.0) {
            rows.write(conn).await?;
        }
        Ok(())
    }
}

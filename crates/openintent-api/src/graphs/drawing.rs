//! A graph of intents on the wire: its nodes, its edges and the aggregate status.

use entente_domain::ids::IntentId;
use entente_domain::openintent::intents::IntentStatus;
use entente_openintent::graphs::{Edge, Graph, Node};
use serde::Serialize;
use utoipa::ToSchema;

use crate::portfolios::AggregateBody;

/// An intent in a graph.
#[derive(Debug, Serialize, ToSchema)]
struct GraphNode<'a> {
    /// The intent's id.
    id: IntentId,
    /// The goal in one line.
    title: &'a str,
    /// The intent's status.
    status: IntentStatus,
    /// The parent intent.
    parent_id: Option<IntentId>,
    /// Same as `parent_id`, under the SDK's name.
    parent_intent_id: Option<IntentId>,
    /// The intents it waits for.
    depends_on: &'a [IntentId],
    /// The intent's version.
    version: i64,
}

/// The kind of an edge.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum EdgeKind {
    /// `to` is a part of `from`.
    Parent,
    /// `to` waits for `from`.
    Dependency,
}

/// An edge of a graph, in the direction in which work proceeds.
#[derive(Debug, Serialize, ToSchema)]
struct GraphEdge {
    /// The parent, or the dependency.
    from: IntentId,
    /// The part, or the dependent.
    to: IntentId,
    /// The kind of edge.
    #[serde(rename = "type")]
    kind: EdgeKind,
}

/// A graph of intents.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GraphBody<'a> {
    /// The requested intent.
    root_id: IntentId,
    /// The intents, starting with the requested one.
    nodes: Vec<GraphNode<'a>>,
    /// The edges between them.
    edges: Vec<GraphEdge>,
    /// The aggregate status of the intents.
    aggregate_status: AggregateBody,
}

impl<'a> GraphBody<'a> {
    pub fn new(root_id: IntentId, graph: &'a Graph) -> Self {
        let Graph { nodes, edges, sums } = graph;
        let node = |node: &'a Node| GraphNode {
            id: node.id,
            title: &node.title,
            status: node.status,
            parent_id: node.parent_id,
            parent_intent_id: node.parent_id,
            depends_on: &node.depends_on,
            version: node.version,
        };
        let edge = |edge: &Edge| match *edge {
            Edge::Part(from, to) => GraphEdge { from, to, kind: EdgeKind::Parent },
            Edge::Wait(from, to) => GraphEdge { from, to, kind: EdgeKind::Dependency },
        };
        Self {
            root_id,
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            aggregate_status: AggregateBody::new(sums),
        }
    }
}

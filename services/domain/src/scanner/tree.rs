//! Builds documents from events, within bounds.

use super::{Ending, Node};
use crate::limits;

/// Documents, and the one that is being built.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) documents: Vec<Node>,
    open: Vec<Frame>,
    values: usize,
    kept: usize,
}

#[derive(Debug)]
enum Frame {
    Array(Vec<Node>),
    Object {
        members: Vec<(String, Node)>,
        /// Name of the value that comes next.
        name: Option<String>,
    },
}

impl Tree {
    /// No document is being built.
    pub(super) fn is_between(&self) -> bool {
        self.open.is_empty()
    }

    /// A text of this size may be kept.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.kept + bytes <= limits::SCANNED_KEPT_BYTES
    }

    pub(super) fn open_object(&mut self) -> Result<(), Ending> {
        self.count()?;
        self.open.push(Frame::Object {
            members: Vec::new(),
            name: None,
        });
        Ok(())
    }

    pub(super) fn open_array(&mut self) -> Result<(), Ending> {
        self.count()?;
        self.open.push(Frame::Array(Vec::new()));
        Ok(())
    }

    /// The name of a member. Names must be kept, or their values would have none.
    pub(super) fn name(&mut self, text: String) -> Result<(), Ending> {
        if !self.has_room(text.len()) {
            return Err(Ending::Opaque);
        }
        self.kept += text.len();
        match self.open.last_mut() {
            Some(Frame::Object { name, .. }) => {
                *name = Some(text);
                Ok(())
            }
            Some(Frame::Array(_)) | None => Err(Ending::Damaged),
        }
    }

    pub(super) fn value(&mut self, node: Node) -> Result<(), Ending> {
        self.count()?;
        if let Node::Text(text) | Node::Number(text) = &node {
            self.kept += text.len();
        }
        self.put(node)
    }

    pub(super) fn close(&mut self) -> Result<(), Ending> {
        let node = match self.open.pop() {
            Some(Frame::Array(nodes)) => Node::Array(nodes),
            Some(Frame::Object { members, .. }) => Node::Object(members),
            None => return Err(Ending::Damaged),
        };
        self.put(node)
    }

    fn put(&mut self, node: Node) -> Result<(), Ending> {
        match self.open.last_mut() {
            None => self.documents.push(node),
            Some(Frame::Array(nodes)) => nodes.push(node),
            Some(Frame::Object { members, name }) => {
                let name = name.take().ok_or(Ending::Damaged)?;
                members.push((name, node));
            }
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Ending> {
        self.values += 1;
        if self.values > limits::SCANNED_VALUES {
            return Err(Ending::Opaque);
        }
        Ok(())
    }
}

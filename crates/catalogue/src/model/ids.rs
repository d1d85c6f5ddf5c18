//! Ids by which the parts of a definition refer to each other, each kind with its own type, and vectors that only these ids index.
//!
//! They are valid within one parsed definition: stored data refers to names, or to numbers that the store assigns.

use crate::value::Value;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(usize);

        impl $name {
            /// Returns the id of a position in its vector.
            pub const fn new(index: usize) -> Self {
                Self(index)
            }

            /// Returns the position in its vector.
            pub const fn index(self) -> usize {
                self.0
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                Self(index)
            }
        }

        impl From<$name> for usize {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Identifies a collection of a definition.
    CollectionId
}
id! {
    /// Identifies a field of one collection, and its value among a record's golden values or a contribution's values.
    FieldId
}
id! {
    /// Identifies a source of a definition.
    SourceId
}
id! {
    /// Identifies a link of a definition.
    LinkId
}

/// A vector that is indexed by one kind of ids.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I: From<usize> + Into<usize>, T> IdVec<I, T> {
    /// Creates an empty vector.
    pub const fn new() -> Self {
        Self { items: Vec::new(), ids: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the element with this id, if there is one.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.into())
    }

    /// Adds an element and returns its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::from(self.items.len() - 1)
    }

    /// Iterates over all ids.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from)
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Iterates over the elements mutably.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Iterates over the elements with their ids.
    pub fn enumerate(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator + Clone {
        self.items.iter().enumerate().map(|(index, item)| (I::from(index), item))
    }

    /// Returns the id of the first element that satisfies a condition.
    pub fn position(&self, condition: impl FnMut(&T) -> bool) -> Option<I> {
        self.items.iter().position(condition).map(I::from)
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), ids: PhantomData }
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}

impl<I: Into<usize>, T> Index<I> for IdVec<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.into()]
    }
}

impl<I: Into<usize>, T> IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.into()]
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, ids: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> Self {
        Self { items: items.into_iter().collect(), ids: PhantomData }
    }
}

impl<I, T> Extend<T> for IdVec<I, T> {
    fn extend<A: IntoIterator<Item = T>>(&mut self, items: A) {
        self.items.extend(items);
    }
}

impl<I, T> IntoIterator for IdVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut IdVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

// Values of a record, one for each field, are shared as slices between stores, contributions and golden values.

impl Index<FieldId> for [Value] {
    type Output = Value;

    fn index(&self, field: FieldId) -> &Value {
        &self[field.0]
    }
}

impl IndexMut<FieldId> for [Value] {
    fn index_mut(&mut self, field: FieldId) -> &mut Value {
        &mut self[field.0]
    }
}

impl Index<FieldId> for Vec<Value> {
    type Output = Value;

    fn index(&self, field: FieldId) -> &Value {
        &self[field.0]
    }
}

impl IndexMut<FieldId> for Vec<Value> {
    fn index_mut(&mut self, field: FieldId) -> &mut Value {
        &mut self[field.0]
    }
}

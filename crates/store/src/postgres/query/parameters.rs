//! The parameters of a query.

use super::super::session::SqlParameter;
use super::super::values::{BoundValue, bare_type};
use ::tokio_postgres::types::ToSql;
use stook_catalogue::value::{FieldType, Value};

/// A parameter of a query, owned.
#[derive(Debug)]
pub enum QueryParameter {
    Number(i64),
    Text(String),
    Texts(Vec<String>),
    Value(Value),
}

/// Collects parameters; `$n` is the n-th.
#[derive(Default)]
pub struct Parameters(Vec<QueryParameter>);

impl Parameters {
    pub fn push(&mut self, parameter: QueryParameter, ty: &str) -> String {
        self.0.push(parameter);
        format!("${}::{ty}", self.0.len())
    }

    pub fn value(&mut self, value: Value, ty: &FieldType) -> String {
        self.push(QueryParameter::Value(value), &bare_type(ty))
    }

    pub fn text(&mut self, text: String) -> String {
        self.push(QueryParameter::Text(text), "text")
    }

    /// Runs `run` with the parameters as PostgreSQL's client takes them.
    pub fn with<T>(&self, run: impl FnOnce(&[SqlParameter<'_>]) -> T) -> T {
        let boxed: Vec<Box<dyn ToSql + Sync + '_>> = self
            .0
            .iter()
            .map(|parameter| -> Box<dyn ToSql + Sync + '_> {
                match parameter {
                    QueryParameter::Number(number) => Box::new(*number),
                    QueryParameter::Text(text) => Box::new(text.as_str()),
                    QueryParameter::Texts(texts) => Box::new(texts),
                    QueryParameter::Value(value) => Box::new(BoundValue(value)),
                }
            })
            .collect();
        let parameters: Vec<SqlParameter<'_>> = boxed.iter().map(|parameter| &**parameter).collect();
        run(&parameters)
    }
}

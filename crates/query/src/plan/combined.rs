//! Compiles conditions that are combined by `and`, `or` and `not`: `not` is moved inwards, so that only single conditions are negated.

use super::columns::Resolver;
use crate::language::{ComparisonOperator, ConditionTree, QueryCondition};
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::value::FieldType;
use stook_store::plan::{CombinedCondition, QueryPlan};

impl Resolver<'_> {
    /// Adds combined conditions to a plan. Alternatives for one field become a condition that an index can answer.
    pub fn combined(&self, tree: &ConditionTree, plan: &mut QueryPlan) -> Result<(), Diagnostic> {
        match tree {
            ConditionTree::One(condition) => return self.condition(condition, &mut plan.conditions),
            ConditionTree::All(inner) => return inner.iter().try_for_each(|inner| self.combined(inner, plan)),
            ConditionTree::Not(_) | ConditionTree::Any(_) => {}
        }
        if let Some(condition) = self.alternative_values(tree)? {
            return self.condition(&condition, &mut plan.conditions);
        }
        match self.tree(tree, false)? {
            CombinedCondition::All(inner) => plan.combined.extend(inner),
            other => plan.combined.push(other),
        }
        Ok(())
    }

    fn tree(&self, tree: &ConditionTree, is_negated: bool) -> Result<CombinedCondition, Diagnostic> {
        let all = |inner: &[ConditionTree]| inner.iter().map(|inner| self.tree(inner, is_negated)).collect::<Result<Vec<_>, _>>();
        Ok(match (tree, is_negated) {
            (ConditionTree::One(condition), _) => self.single(condition, is_negated)?,
            (ConditionTree::Not(inner), _) => self.tree(inner, !is_negated)?,
            (ConditionTree::All(inner), false) | (ConditionTree::Any(inner), true) => CombinedCondition::All(all(inner)?),
            (ConditionTree::All(inner), true) | (ConditionTree::Any(inner), false) => CombinedCondition::Any(all(inner)?),
        })
    }

    fn single(&self, condition: &QueryCondition, is_negated: bool) -> Result<CombinedCondition, Diagnostic> {
        let mut compiled = Vec::new();
        self.condition(condition, &mut compiled)?;
        // of two, the first follows from the second, and is there for an index
        let Some(last) = compiled.pop() else { return Ok(CombinedCondition::All(Vec::new())) };
        Ok(if is_negated { CombinedCondition::IsNot(last) } else { CombinedCondition::Is(last) })
    }

    /// The condition `field in [..]`, if all alternatives are values of one field.
    fn alternative_values(&self, tree: &ConditionTree) -> Result<Option<QueryCondition>, Diagnostic> {
        let ConditionTree::Any(alternatives) = tree else { return Ok(None) };
        let mut merged: Option<QueryCondition> = None;
        for alternative in alternatives {
            let ConditionTree::One(condition) = alternative else { return Ok(None) };
            let is_list = matches!(condition.operator, ComparisonOperator::Equal | ComparisonOperator::In);
            let is_same = merged.as_ref().is_none_or(|merged| merged.path.text == condition.path.text);
            if !is_list || !is_same || condition.values.iter().any(|value| value.literal().is_none()) {
                return Ok(None);
            }
            match &mut merged {
                Some(merged) => merged.values.extend(condition.values.iter().cloned()),
                None => merged = Some(QueryCondition { operator: ComparisonOperator::In, ..condition.clone() }),
            }
        }
        let Some(merged) = merged else { return Ok(None) };
        // days, and partial dates, are ranges of times
        let ty = self.compared_type(&merged.path)?;
        Ok(Some(merged).filter(|_| !matches!(ty.element(), FieldType::Timestamp | FieldType::PartialDate)))
    }
}

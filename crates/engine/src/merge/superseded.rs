//! What counts instead of a superseded document, or keeps a record that a document deletes, in words.

use super::contribution::{NewContribution, NumberedContribution};
use crate::job::NO_JOB;
use stook_catalogue::record::{Contribution, ContributionAge, ContributionContent, ContributionOrigin, PreviousContribution};
use stook_catalogue::value::show_timestamp;

/// A document that counts instead of another one.
pub(super) struct Successor {
    age: ContributionAge,
    delivery: SuccessorDelivery,
}

enum SuccessorDelivery {
    /// In the same delivery, with this number.
    SameDelivery(u64),
    /// In an earlier delivery; `None` if an earlier version of Stook has stored it without its origin.
    Earlier(Option<ContributionOrigin>),
}

impl Successor {
    /// A contribution of the same chunk.
    pub fn incoming(numbered: &NumberedContribution) -> Self {
        Self { age: numbered.age(), delivery: SuccessorDelivery::SameDelivery(numbered.document) }
    }

    /// A contribution that another chunk of the job has stored.
    pub fn stored(contribution: &Contribution) -> Self {
        Self { age: contribution.age(), delivery: SuccessorDelivery::SameDelivery(contribution.origin.document) }
    }

    /// A contribution that was stored before the job.
    pub fn before(previous: &PreviousContribution) -> Self {
        Self { age: previous.age(), delivery: SuccessorDelivery::Earlier(previous.origin) }
    }

    /// The reason for a contribution of this age: what counts instead.
    pub fn counts_instead_of(&self, age: ContributionAge) -> String {
        let document = match self.delivery {
            SuccessorDelivery::SameDelivery(document) => format!("document {document} of the same delivery"),
            SuccessorDelivery::Earlier(None) => "a document of another delivery".to_owned(),
            SuccessorDelivery::Earlier(Some(origin)) => place(origin).unwrap_or_else(|| "a document that was delivered without a job".to_owned()),
        };
        let as_of = show_timestamp(self.age.as_of);
        let received = self.age.received.map(|received| format!(", received {}", show_timestamp(received.at))).unwrap_or_default();
        let tie = match self.age.moment() == age.moment() {
            true if self.age.hash == age.hash => ", and says the same",
            true => ": both are of the same time, so their content decided",
            false => "",
        };
        format!("{document} counts instead, as of {as_of}{received}{tie}")
    }
}

/// The reason that a newer complete delivery counts instead of a contribution, if one does.
pub(super) fn replaced_by(contribution: &NewContribution) -> Option<String> {
    let delivery = contribution.replaced_by?;
    let scope = contribution.scope.as_deref().map(|scoped| scoped.scope.as_str()).filter(|scope| !scope.is_empty());
    let of = scope.map(|scope| format!(" of `{scope}`")).unwrap_or_default();
    let place = delivery.received.and_then(|received| place(received.origin)).map(|place| format!(" ({place})")).unwrap_or_default();
    Some(format!("a newer complete delivery{of}{place} counts instead, as of {}", show_timestamp(delivery.as_of)))
}

/// Why a record exists, or why it does not, whatever else its contributors say: the newest of the contributions that decide it. Empty if none does.
pub(crate) fn existence_reason(contributions: &[Contribution], is_alive: bool) -> String {
    let decides = |contribution: &&Contribution| contribution.counts() && is_alive == matches!(contribution.content, ContributionContent::Values(_));
    let deciding = contributions.iter().filter(decides).max_by_key(|contribution| contribution.age());
    deciding.map_or_else(String::new, if is_alive { kept_by } else { deleted_by })
}

/// The reason that a deletion counts instead.
fn deleted_by(deletion: &Contribution) -> String {
    format!("the deletion by {} counts instead, as of {}", named(deletion), show_timestamp(deletion.as_of))
}

/// The reason that a record remains although a document deletes it.
fn kept_by(contribution: &Contribution) -> String {
    format!("the record remains, because of what {} says as of {}", named(contribution), show_timestamp(contribution.as_of))
}

/// The contributor, and where its contribution is from.
fn named(contribution: &Contribution) -> String {
    match place(contribution.origin) {
        Some(place) => format!("`{}` ({place})", contribution.contributor),
        None => format!("`{}`", contribution.contributor),
    }
}

/// The document and the job that it was in, if it was in one.
fn place(origin: ContributionOrigin) -> Option<String> {
    (origin.job != NO_JOB).then(|| format!("document {} of job {}", origin.document, origin.job))
}

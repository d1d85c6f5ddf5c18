//! A register of businesses: samples that describe each business several times, links of samples to collection exercises, respondents, enrolments.
//! The names are made up.

use crate::random::Random;
use std::io::{self, Write};
use std::path::Path;

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct Businesses {
    /// Number of businesses.
    pub records: u64,
    /// Equal seeds give equal bytes.
    pub seed: u64,
    /// Number of the first business, so that files can have different businesses.
    pub first: u64,
    /// Number of samples that describe each business.
    pub versions: u64,
}

const WORDS: [&str; 24] = [
    "Bolts", "Ratchets", "Harbour", "Meadow", "Northern", "Copper", "Quarry", "Bright", "Willow", "Anchor", "Summit", "Valley", "Orchard", "Granite",
    "Kestrel", "Lantern", "Marble", "Thistle", "Cedar", "Foundry", "Beacon", "Juniper", "Saddle", "Tinder",
];
const KINDS: [&str; 8] = ["Ltd", "Holdings", "Partners", "Works", "Trading", "Supplies", "and Sons", "Services"];
const NAMES: [&str; 12] = ["Jacky", "Ann", "Omar", "Lena", "Ravi", "Tom", "Mei", "Ines", "Pavel", "Ruth", "Sami", "Nora"];
const SURNAMES: [&str; 12] = ["Turner", "Smith", "Okafor", "Berg", "Patel", "Costa", "Novak", "Lund", "Haddad", "Moreau", "Walsh", "Ito"];
const SURVEYS: [&str; 4] = [
    "02b9c366-7397-42f7-942a-76dc5876d86d",
    "cb0711c3-0ac8-41d3-ae0e-567e5ea1ef87",
    "6aa8896f-ced5-4694-800c-6cd661b0c8b2",
    "75b19ea0-69a4-4c58-8d7f-4458c8f43f5c",
];
const STATUSES: [&str; 4] = ["ENABLED", "ENABLED", "PENDING", "DISABLED"];

/// Returns a business's reference: eleven digits.
pub fn reference(number: u64) -> String {
    format!("{}", 49_900_000_000 + number)
}

/// Returns a business's id, as the catalogue derives it from the reference.
pub fn id(reference: &str) -> uuid::Uuid {
    let space = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, b"business");
    uuid::Uuid::new_v5(&space, reference.as_bytes())
}

fn random_uuid(random: &mut Random) -> uuid::Uuid {
    let high = u128::from(random.number());
    uuid::Builder::from_random_bytes((high << 64 | u128::from(random.number())).to_be_bytes()).into_uuid()
}

/// Returns one version of a business, as a sample describes it.
pub fn sample(random: &mut Random, number: u64, sample: &uuid::Uuid) -> serde_json::Value {
    let one = |random: &mut Random, from: &[&'static str]| *random.one(from);
    let (first, second, kind) = (one(random, &WORDS), one(random, &WORDS), one(random, &KINDS));
    serde_json::json!({
        "sampleUnitRef": reference(number),
        "sampleUnitType": "B",
        "sampleSummaryId": sample.to_string(),
        "runame1": format!("{first}-{number}"),
        "runame2": second,
        "runame3": kind,
        "tradstyle1": format!("{first} {second}"),
        "tradstyle2": kind,
        "tradstyle3": "",
        "entname1": format!("{first} {kind}"),
        "entname2": "",
        "entname3": "",
        "entref": format!("{}", 9_900_000_000_u64 + number),
        "entrepmkr": "C",
        "checkletter": one(random, &["A", "C", "D", "F", "H"]),
        "cell_no": random.below(9_999),
        "currency": "S",
        "entremkr": "C",
        "formType": format!("{:04}", random.below(9_999)),
        "formtype": "0001",
        "froempment": random.below(500),
        "frosic2007": format!("{:05}", random.below(99_999)),
        "frosic92": format!("{:05}", random.below(99_999)),
        "frotover": random.below(100_000),
        "inclexcl": "D",
        "legalstatus": one(random, &["1", "2", "3"]),
        "region": one(random, &["FE", "GB", "HH", "JG", "WW"]),
        "birthdate": format!("{:02}/{:02}/{}", 1 + random.below(28), 1 + random.below(12), 1970 + random.below(50)),
        "rusic2007": format!("{:05}", random.below(99_999)),
        "rusic92": format!("{:05}", random.below(99_999)),
        "seltype": "S",
    })
}

/// Writes `samples.ndjson`, `links.ndjson`, `respondents.ndjson` and `enrolments.csv` into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(wanted: &Businesses, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = |name: &str| std::fs::File::create(folder.join(name)).map(|file| io::BufWriter::with_capacity(1 << 20, file));
    let mut random = Random::new(wanted.seed);
    let samples: Vec<uuid::Uuid> = (0..wanted.versions.max(1)).map(|_| random_uuid(&mut random)).collect();
    let mut out = file("samples.ndjson")?;
    for own in &samples {
        for number in wanted.first..wanted.first + wanted.records {
            writeln!(out, "{}", sample(&mut random, number, own))?;
        }
    }
    out.flush()?;
    let mut out = file("links.ndjson")?;
    for own in &samples {
        let link = serde_json::json!({ "sample": own.to_string(), "collectionExerciseId": random_uuid(&mut random).to_string() });
        writeln!(out, "{link}")?;
    }
    out.flush()?;
    let mut people = file("respondents.ndjson")?;
    let mut enrolments = file("enrolments.csv")?;
    writeln!(enrolments, "business_id,respondent_id,survey_id,status,created_on")?;
    for person in 0..wanted.records.div_ceil(2) {
        let own = random_uuid(&mut random);
        let (first, last) = (NAMES[random.below(12) as usize], SURNAMES[random.below(12) as usize]);
        let email = format!("{}.{}{}@example.com", first.to_lowercase(), last.to_lowercase(), wanted.first + person);
        let telephone = format!("0{}", 1_000_000_000 + random.below(8_999_999_999));
        let status = ["ACTIVE", "ACTIVE", "ACTIVE", "CREATED", "SUSPENDED"][random.below(5) as usize];
        let shown = serde_json::json!({
            "id": own.to_string(), "emailAddress": email, "firstName": first, "lastName": last, "telephone": telephone, "status": status
        });
        writeln!(people, "{shown}")?;
        for survey in 0..=random.below(3) {
            let business = id(&reference(wanted.first + random.below(wanted.records.max(1))));
            // each in another survey, so that no enrolment occurs twice
            let (survey, status) = (SURVEYS[((person + survey) % 4) as usize], STATUSES[random.below(4) as usize]);
            writeln!(enrolments, "{business},{own},{survey},{status},2026-01-31T06:00:00Z")?;
        }
    }
    people.flush()?;
    enrolments.flush()
}

//! Laws of the file of a backup: what is written is read, and what is damaged anywhere is refused.

use super::*;
use crate::backup::Cell;
use proptest::prelude::*;
use stook_catalogue::value::Value;

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        any::<i64>().prop_map(|number| Cell::Value(Value::Int(number))),
        any::<bool>().prop_map(|value| Cell::Value(Value::Bool(value))),
        ".{0,20}".prop_map(|text| Cell::Value(Value::text(text.as_str()))),
        prop::collection::vec(any::<u8>(), 0..50).prop_map(Cell::Bytes),
        Just(Cell::Value(Value::Null)),
    ]
}

fn item() -> impl Strategy<Value = BackupItem> {
    let row = ("[ab]", prop::collection::vec(cell(), 0..5)).prop_map(|(table, cells)| BackupItem::Row(table, cells));
    prop_oneof![8 => row, 1 => ("[a-z]{1,5}", ".{0,9}").prop_map(|(name, value)| BackupItem::Setting(name, value)), 1 => ".{0,9}".prop_map(BackupItem::LeftOut)]
}

fn written(items: &[BackupItem]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut contents = BackupContents::default();
    let mut writer = ItemWriter::new(BlockWriter::new(&mut bytes).expect("it begins"));
    for item in items {
        contents.add(item);
        writer.write(item).expect("it is written");
    }
    writer.end(&contents).expect("it ends");
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<BackupItem>> {
    let mut input = bytes;
    BackupReader::new(&mut input)?.collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read(items in prop::collection::vec(item(), 0..40)) {
        let bytes = written(&items);
        prop_assert_eq!(read(&bytes).expect("it is read"), items);
    }

    #[test]
    fn a_file_that_is_cut_or_changed_anywhere_is_refused(items in prop::collection::vec(item(), 0..20), place in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let mut bytes = written(&items);
        let place = place.index(bytes.len());
        prop_assert!(read(&bytes[..place]).is_err(), "it ends at {}", place);
        bytes[place] ^= flip;
        prop_assert!(read(&bytes).is_err(), "another byte at {}", place);
        bytes[place] ^= flip;
        bytes.push(flip);
        prop_assert!(read(&bytes).is_err(), "a byte more");
    }
}

#[test]
fn blocks_that_changed_places_are_refused() {
    let rows: Vec<BackupItem> =
        (0..100_u64).map(|row| BackupItem::Row("a".into(), vec![Cell::Bytes(blake3::hash(&row.to_le_bytes()).as_bytes().repeat(1_000))])).collect();
    let bytes = written(&rows);
    let length = |at: usize| 24 + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (first, second) = (17, 17 + length(17));
    let swapped = [&bytes[..first], &bytes[second..second + length(second)], &bytes[first..second], &bytes[second + length(second)..]].concat();
    assert_eq!(read(&bytes).expect("it is read").len(), 100);
    let error = read(&swapped).expect_err("blocks have numbers").to_string();
    assert!(error.contains("block 1 at byte 17") && error.contains("checksum"), "{error}");
    let error = read(&bytes[..second + 5]).expect_err("it is cut").to_string();
    assert!(error.contains(&format!("ends within block 2 at byte {second}")), "{error}");
}

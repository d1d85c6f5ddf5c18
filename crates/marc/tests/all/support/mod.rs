//! Records that the writers of the crate would not write.

/// A record of ISO 2709 by leader, tags and data; nothing is checked.
pub fn raw(leader: &str, fields: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut directory, mut data) = (Vec::new(), Vec::new());
    for (tag, content) in fields {
        directory.extend_from_slice(format!("{tag}{:04}{:05}", content.len() + 1, data.len()).as_bytes());
        data.extend_from_slice(content);
        data.push(0x1e);
    }
    let base = 24 + directory.len() + 1;
    let mut out = format!("{:05}{}{base:05}{}", base + data.len() + 1, &leader[5..12], &leader[17..]).into_bytes();
    out.extend_from_slice(&directory);
    out.push(0x1e);
    out.extend_from_slice(&data);
    out.push(0x1d);
    out
}
